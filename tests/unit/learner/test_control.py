"""The permuted control: the same rewards in another order, and never by accident."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from learner.config import load
from learner.control import permuted
from tests.support.learner_samples import attempt, group

TINY = Path(__file__).parents[3] / "learner/configs/tiny-cpu.toml"
REWARDS = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]


def made(group_id: str = "g"):
    return group([attempt(s, [1, 2], [0, 1], reward=r) for s, r in enumerate(REWARDS)], group_id)


def test_rewards_change_places_and_nothing_else_changes():
    before = made()
    after = permuted(before, seed=1)
    assert sorted(after.rewards()) == sorted(REWARDS)
    assert after.rewards() != REWARDS
    assert [a.rollout_id for a in after.attempts] == [a.rollout_id for a in before.attempts]
    assert all(
        a.token_ids is b.token_ids for a, b in zip(after.attempts, before.attempts, strict=True)
    )


def test_a_run_that_was_killed_permutes_a_group_as_before():
    assert permuted(made(), seed=1).rewards() == permuted(made(), seed=1).rewards()
    orders = {tuple(permuted(made(f"g{n}"), seed=1).rewards()) for n in range(20)}
    assert len(orders) > 5


def test_over_many_groups_every_attempt_gets_the_mean_reward():
    total = [0.0] * len(REWARDS)
    for number in range(2000):
        for slot, reward in enumerate(permuted(made(f"g{number}"), seed=7).rewards()):
            total[slot] += reward
    mean = sum(REWARDS) / len(REWARDS)
    assert all(abs(one / 2000 - mean) < 0.05 for one in total)


@pytest.mark.parametrize(
    "overrides",
    [
        ["control.rewards=permuted"],
        ["run.id=control-1"],
    ],
)
def test_a_control_and_its_name_go_together(overrides):
    with pytest.raises(ConfigError, match=r'run\.id that begins with "control-"'):
        load(TINY, overrides)


def test_a_control_is_part_of_the_recipe_and_other_recipes_keep_their_hash():
    plain, control = load(TINY, []), load(TINY, ["control.rewards=permuted", "run.id=control-1"])
    assert plain.recipe_hash() != control.recipe_hash()
    assert "control" not in plain.recipe()
    assert control.recipe()["control"] == {"rewards": "permuted"}
