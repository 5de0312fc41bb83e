"""An attempt as a row of `attempts.jsonl`: what every reported figure is computed from."""

from collections import Counter, defaultdict
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.v1 import evidence_pb2, group_pb2, trajectory_pb2, verdict_pb2

from rollout_gateway.conversation import status_name
from rollout_gateway.rollout import Attempted, Order


def attempt_row(attempted: Attempted, order: Order) -> AttemptRow:
    rollout, failure = attempted.rollout, attempted.failure
    trajectory, verdict, task = rollout.trajectory, rollout.verdict, order.task
    calls = [call for turn in trajectory.turns for call in turn.calls]
    in_tokens = not trajectory.interface
    sampled = sum(trajectory.loss_mask) if in_tokens else trajectory.sampled_tokens
    read = len(trajectory.token_ids) - sampled if in_tokens else trajectory.prompt_tokens
    return AttemptRow(
        task_id=task.ref.task_id,
        task_hash=task.ref.task_hash,
        world_hash=task.world.world_hash,
        tags=dict(task.tags),
        repetition=order.repetition,
        attempt=rollout.attempt,
        rollout_id=rollout.rollout_id,
        episode_id=rollout.episode_id,
        status=status_name(trajectory.status),
        reward=verdict.reward if verdict.HasField("reward") else None,
        interface=trajectory.interface or "tokens",
        policy_run=order.policy.run_id if order.policy is not None else "",
        policy_numbers=sorted({span.version_number for span in trajectory.version_spans}),
        policy_hash=trajectory.model or (order.policy.weights_hash if order.policy else ""),
        renderer_hash=trajectory.renderer_hash,
        sampling_hash=trajectory.sampling_hash,
        checks_hash=verdict.checks_hash,
        initial_state_hash=verdict.initial_state_hash or attempted.initial_state_hash,
        final_state_hash=verdict.final_state_hash,
        prompt_tokens=read,
        sampled_tokens=sampled,
        user_tokens=attempted.user_tokens,
        judge_tokens=verdict.judge_tokens,
        turns=_assistant_turns(trajectory),
        tool_calls=len(calls),
        tool_errors=sum(call.is_error for call in calls),
        seconds=rollout.seconds,
        tool_seconds=sum(call.seconds for call in calls),
        checks=[_check(check, verdict) for check in verdict.checks],
        writes=_writes(verdict),
        **_failure(failure),
    )


def _check(check: verdict_pb2.CheckResult, verdict: verdict_pb2.Verdict) -> dict[str, Any]:
    """A dataset's own test also tells what its harness makes of the attempt."""
    told: dict[str, Any] = {"name": check.name, "kind": check.kind, "passed": check.passed}
    if check.kind == "dataset_test" and verdict.HasField("as_upstream"):
        theirs = verdict.as_upstream
        told["upstream"] = {"result": theirs.result, "reward": theirs.reward}
    return told


def _assistant_turns(trajectory: trajectory_pb2.Trajectory) -> int:
    return sum(turn.kind == trajectory_pb2.TURN_KIND_ASSISTANT for turn in trajectory.turns)


def _writes(verdict: verdict_pb2.Verdict) -> dict[str, dict[str, int]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for change in verdict.diff:
        name = evidence_pb2.RowOp.Name(change.op).removeprefix("ROW_OP_").lower()
        counts[change.table][name] += 1
    return {table: dict(ops) for table, ops in counts.items()}


def _failure(failure: group_pb2.FailedAttempt | None) -> dict[str, str]:
    if failure is None:
        return {"error_class": "", "boundary": "", "message": ""}
    return {
        "error_class": failure.error_class,
        "boundary": failure.boundary,
        "message": failure.message,
    }
