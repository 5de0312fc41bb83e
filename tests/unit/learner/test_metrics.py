"""What the learner tells while it works."""

from pathlib import Path

import pytest

from learner.metrics import GAUGES, QUANTILES, LearnerMetrics
from tests.support.taken_group import group


@pytest.fixture
def metrics(tmp_path: Path) -> LearnerMetrics:
    return LearnerMetrics(tmp_path / "steps.jsonl")


def phase(metrics: LearnerMetrics) -> list[str]:
    names = ("wait", "gradients", "optimizer", "checkpoint", "publish")
    told = {
        name: metrics.registry.get_sample_value("envfarm_learner_phase", {"phase": name})
        for name in names
    }
    assert set(told.values()) <= {0.0, 1.0}
    return [name for name, value in told.items() if value]


def test_a_phase_shows_before_it_ends_and_gives_way_to_the_one_around_it(metrics: LearnerMetrics):
    assert phase(metrics) == []
    with metrics.at("wait"):
        assert phase(metrics) == ["wait"]
        with metrics.at("checkpoint"):
            assert phase(metrics) == ["checkpoint"]
        assert phase(metrics) == ["wait"]
    assert phase(metrics) == []


def test_a_phase_ends_with_the_error_that_ends_it(metrics: LearnerMetrics):
    with pytest.raises(ValueError), metrics.at("optimizer"):
        raise ValueError
    assert phase(metrics) == []


def test_every_fate_is_told_before_its_first_group(metrics: LearnerMetrics):
    value = metrics.registry.get_sample_value
    assert value("envfarm_groups_taken_total", {"fate": "stale"}) == 0
    assert value("envfarm_taken_tokens_total", {"fate": "stale"}) == 0


def test_taken_groups_count_their_episodes_and_sampled_tokens(metrics: LearnerMetrics):
    metrics.taken("trained", group([0, 1, 1], [0, 1, 0, 1]))
    metrics.taken("stale", group([0, 1]))
    metrics.taken("bad", None)
    value = metrics.registry.get_sample_value
    assert value("envfarm_taken_tokens_total", {"fate": "trained"}) == 4
    assert value("envfarm_taken_episodes_total", {"fate": "trained"}) == 2
    assert value("envfarm_taken_tokens_total", {"fate": "stale"}) == 1
    assert value("envfarm_taken_episodes_total", {"fate": "bad"}) == 0
    assert value("envfarm_groups_taken_total", {"fate": "bad"}) == 1


def test_an_update_that_tells_nothing_of_a_mismatch_leaves_the_last_one(metrics: LearnerMetrics):
    line = dict.fromkeys([*GAUGES.values(), *QUANTILES.values()], 0.5)
    line |= {"tokens": 3, "trained_rollouts": 1, "prompt_tokens": 2, "masked_tokens": 0}
    for gap in (0.25, 0.0):
        metrics.step({**line, "stepped": True, "mismatch_gap": gap})
        assert metrics.registry.get_sample_value("envfarm_mismatch_gap") == 0.25
    metrics.step({**line, "stepped": True, "mismatch_gap": 0.125})
    assert metrics.registry.get_sample_value("envfarm_mismatch_gap") == 0.125
