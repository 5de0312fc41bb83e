"""A recorded job is lived through again: what must come out, and what a changed record gives away."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from envfarm.canonical import bytes_hash
from envfarm.errors import ConfigError
from envfarm.v1 import group_pb2, policy_pb2, task_pb2, trajectory_pb2, verdict_pb2

from rollout_gateway.files import write_json
from rollout_gateway.job_context import RULES, EndRules, Rendering, write_context
from rollout_gateway.job_spec import JobKind, JobSpec
from rollout_gateway.record import JobRecord
from rollout_gateway.replay import replay
from rollout_gateway.rollout import Attempted

S = trajectory_pb2.RolloutStatus
Reason = group_pb2.CancelReason
TASK = task_pb2.TaskRef(task_id="d/t", task_hash="h")
POLICY = policy_pb2.PolicyVersion(run_id="r", number=2, weights_hash="w")
RULES_OF_TEST = EndRules(
    attempts_per_slot=2,
    max_version_spread=1,
    park_after=3,
    park_updates=5,
    task_replacements=2,
    oversampling=2.0,
)
LIST = JobSpec(
    job_id="j",
    run_id="r",
    task_ids=("d/t",),
    groups_per_task=1,
    group_size=2,
    publish=True,
    kind=JobKind.TRAIN,
)


def clean(slot: int, reward: float, attempt: int = 1, group: str = "j.0.0") -> Attempted:
    name = f"{group}.s{slot}.a{attempt}"
    return Attempted(
        group_pb2.Rollout(
            rollout_id=name,
            slot=slot,
            attempt=attempt,
            trajectory=trajectory_pb2.Trajectory(
                rollout_id=name,
                task=TASK,
                status=S.ROLLOUT_STATUS_COMPLETED,
                token_ids=[1, 2],
                loss_mask=b"\x00\x01",
                logprobs=[0.0, -0.5],
                version_spans=[{"start": 1, "length": 1, "version_number": 2}],
            ),
            verdict=verdict_pb2.Verdict(reward=reward, task=TASK, initial_state_hash="i"),
        )
    )


def broken(slot: int, attempt: int = 1) -> Attempted:
    name = f"j.0.0.s{slot}.a{attempt}"
    status = S.ROLLOUT_STATUS_FAILED_ENGINE
    rollout = group_pb2.Rollout(rollout_id=name, slot=slot, attempt=attempt)
    rollout.trajectory.status = status
    failure = group_pb2.FailedAttempt(
        rollout_id=name, slot=slot, attempt=attempt, status=status, error_class="EngineError"
    )
    return Attempted(rollout, failure)


def formed(*attempts: Attempted, group: str = "j.0.0", **end: object) -> group_pb2.GroupOutcome:
    """The outcome of a group with these attempts, made by hand."""
    rollouts = [one.rollout for one in attempts if one.failure is None]
    failed = [one.failure for one in attempts if one.failure is not None]
    message = group_pb2.Group(
        schema_version=1,
        group_id=group,
        run_id="r",
        task=TASK,
        initial_state_hash="i",
        rollouts=rollouts,
        size=len(rollouts),
        failed_attempts=failed,
        policy=POLICY,
        formed_at=9.0,
    )
    return group_pb2.GroupOutcome(
        group_id=group,
        task=TASK,
        rewards=[rollout.verdict.reward for rollout in rollouts],
        refilled_samples=len(failed),
        policy_number=2,
        sha256=bytes_hash(message.SerializeToString(deterministic=True)),
        formed_at=9.0,
        policy=POLICY,
        **(end or {"published": "7-0"}),  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Path]:
    """`recorded(spec, *attempts and outcomes in order)`: the job's folder."""

    def record(spec: JobSpec, *events: Attempted | group_pb2.GroupOutcome) -> Path:
        folder = tmp_path / spec.job_id
        kept = JobRecord(folder)
        for event in events:
            if isinstance(event, Attempted):
                kept.add_attempt(event)
            else:
                kept.add_outcome(event)
        kept.rest()
        write_json(folder / "job.json", {"spec": asdict(spec), "state": "done", "message": ""})
        rendering = Rendering(tokenizer_dir="", chat_format="compact", reasoning="keep", hash="")
        write_context(folder, rendering, RULES_OF_TEST, {"d/t": task_pb2.Task(ref=TASK)})
        return folder

    return record


def test_a_group_with_a_retry_is_made_again_to_the_byte(recorded):
    attempts = [broken(1), clean(0, 1.0), clean(1, 0.0, attempt=2)]
    found = replay(recorded(LIST, *attempts, formed(*attempts)))
    assert (found.groups, found.attempts, found.made_again) == (1, 3, 1)
    assert found.deviations == []


def test_a_changed_attempt_gives_itself_away(recorded):
    attempts = [clean(0, 1.0), clean(1, 0.0)]
    outcome = formed(*attempts)
    attempts[1].rollout.trajectory.logprobs[1] = -0.25
    (deviation,) = replay(recorded(LIST, *attempts, outcome)).deviations
    assert deviation.what.startswith(f"bytes {outcome.sha256[:12]}… on record")


def test_another_reward_another_end_and_a_missing_attempt_are_told(recorded):
    pair = [clean(0, 1.0), clean(1, 0.0)]
    other = formed(*pair)
    other.rewards[0] = 0.5
    (deviation,) = replay(recorded(LIST, *pair, other)).deviations
    assert deviation.what == "rewards [0.5, 0.0] on record, [1.0, 0.0] here"


def test_a_group_that_ended_otherwise_is_told(recorded):
    ended = group_pb2.GroupOutcome(
        group_id="j.0.0", task=TASK, cancelled=Reason.CANCEL_REASON_REFILL_CAP, refilled_samples=1
    )
    (deviation,) = replay(recorded(LIST, broken(0), ended)).deviations
    assert deviation.what == "ended as refill_cap on record, still running here"


def test_caps_and_equal_rewards_end_groups_here_too(recorded):
    capped = group_pb2.GroupOutcome(
        group_id="j.0.0", task=TASK, cancelled=Reason.CANCEL_REASON_REFILL_CAP, refilled_samples=2
    )
    equal = group_pb2.GroupOutcome(
        group_id="j.0.1",
        task=TASK,
        cancelled=Reason.CANCEL_REASON_ZERO_VARIANCE,
        rewards=[1.0, 1.0],
        policy_number=2,
    )
    again = [clean(slot, 1.0, group="j.0.1") for slot in (0, 1)]
    found = replay(recorded(LIST, broken(0), broken(0, 2), capped, *again, equal))
    assert (found.groups, found.deviations) == (2, [])


def test_what_was_given_up_from_outside_is_taken_as_it_is(recorded):
    stopped = group_pb2.GroupOutcome(
        group_id="j.0.0", task=TASK, cancelled=Reason.CANCEL_REASON_JOB_CANCELLED, rewards=[1.0]
    )
    assert replay(recorded(LIST, clean(0, 1.0), stopped)).deviations == []


def test_decisions_of_a_stream_are_made_again_from_the_recorded_view(recorded):
    spec = JobSpec(
        job_id="j",
        run_id="r",
        task_ids=("d/t",),
        groups_per_update=1,
        updates=2,
        group_size=2,
        publish=True,
        kind=JobKind.TRAIN,
        max_replacements=1,
    )
    mixed = [clean(0, 1.0), clean(1, 0.0)]
    equal = [clean(slot, 1.0, group="j.0.1") for slot in (0, 1)]
    old = [clean(slot, float(slot), group="j.0.2") for slot in (0, 1)]
    outcomes = [
        formed(*mixed),
        formed(*equal, group="j.0.1", cancelled=Reason.CANCEL_REASON_ZERO_VARIANCE),
        formed(*old, group="j.0.2", cancelled=Reason.CANCEL_REASON_STALE),
    ]
    # The third was sampled under version 2 and the run stands at 4.
    for outcome, version in zip(outcomes, (2, 3, 4), strict=True):
        outcome.view.version = version
    folder = recorded(spec, *mixed, outcomes[0], *equal, outcomes[1], *old, outcomes[2])
    found = replay(folder)
    assert (found.decided_again, found.made_again, found.deviations) == (3, 3, [])


def test_a_decision_that_would_be_another_one_is_told(recorded):
    spec = JobSpec(
        job_id="j",
        run_id="r",
        task_ids=("d/t",),
        groups_per_update=1,
        updates=2,
        group_size=2,
        publish=True,
        kind=JobKind.TRAIN,
    )
    pair = [clean(0, 1.0), clean(1, 0.0)]
    outcome = formed(*pair, cancelled=Reason.CANCEL_REASON_STALE)
    outcome.view.version = 2
    (deviation,) = replay(recorded(spec, *pair, outcome)).deviations
    assert deviation.what == "decided as stale on record, published here"


def test_a_record_without_its_rules_is_one_line(recorded):
    folder = recorded(LIST)
    (folder / RULES).unlink()
    with pytest.raises(ConfigError, match=r"rules\.json is missing or damaged"):
        replay(folder)
