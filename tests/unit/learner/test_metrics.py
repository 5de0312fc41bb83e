"""What the learner tells while it works."""

from pathlib import Path

import numpy as np
import pytest

from learner.group import Attempt, TakenGroup
from learner.metrics import LearnerMetrics


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


def group(*masks: list[int]) -> TakenGroup:
    attempts = tuple(
        Attempt(
            rollout_id=f"g.s{slot}.a1",
            slot=slot,
            task_hash="t",
            verdict_task_hash="t",
            initial_state_hash="s",
            renderer_hash="r",
            sampling_hash="p",
            scored_status=True,
            truncated=False,
            graded=True,
            reward=1.0,
            token_ids=np.zeros(len(mask), dtype=np.int64),
            loss_mask=np.array(mask, dtype=np.uint8),
            logprobs=np.zeros(len(mask), dtype=np.float32),
            spans=(),
        )
        for slot, mask in enumerate(masks)
    )
    return TakenGroup(
        group_id="g",
        run_id="run",
        task_id="d/t",
        task_hash="t",
        initial_state_hash="s",
        size=len(attempts),
        policy_run="run",
        policy_number=0,
        policy_hash="h",
        attempts=attempts,
    )


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
