"""RUN.toml of a training run: what it asks of the gateway, and what it refuses."""

from pathlib import Path

import pytest

from envfarm_cli.campaign.run_recipe import RunRecipe, Train
from envfarm_cli.campaign.training import TrainPlan
from envfarm_cli.failure import BadInput

TASKS = {"domain": "counter"}


def recipe(**train: int) -> RunRecipe:
    values = {"updates": 2, "groups_per_update": 4, **train}
    return RunRecipe.resolve("run.toml", {"name": "a", "tasks": TASKS, "train": values})


def job(train: Train):
    return TrainPlan(
        run_id="r",
        tasks=["counter/a"],
        seed=1,
        recipe=Path("learner.toml"),
        **train.model_dump(),
    ).job()


def test_every_setting_of_training_reaches_the_gateways_job():
    wanted = {
        "updates": 6,
        "groups_per_update": 4,
        "group_size": 5,
        "staleness": 2,
        "updates_per_version": 3,
        "max_replacements": 7,
        "reband_after": 40,
    }
    assert set(wanted) == set(Train.model_fields)
    asked = job(recipe(**wanted).train)
    assert {key: getattr(asked, key) for key in wanted} == wanted


def test_the_pool_is_fixed_unless_asked():
    assert job(recipe().train).reband_after == 0


@pytest.mark.parametrize("attempts", [-1, 1, 7])
def test_a_band_is_not_looked_at_after_less_than_a_group(attempts: int):
    with pytest.raises(BadInput, match="reband_after"):
        recipe(reband_after=attempts)
