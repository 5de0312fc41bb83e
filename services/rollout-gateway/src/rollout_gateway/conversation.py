"""An attempt as people read it: JSON without tokens. Served at /v1/rollouts/{id} and kept as JSONL."""

import json
from typing import Any

from envfarm.v1 import evidence_pb2, group_pb2, trajectory_pb2, verdict_pb2


def conversation(
    rollout: group_pb2.Rollout, failure: group_pb2.FailedAttempt | None
) -> dict[str, Any]:
    """Everything but the tokens."""
    trajectory = rollout.trajectory
    return {
        **summary(rollout, failure),
        "turns": [turn_as_json(turn) for turn in trajectory.turns],
        "final_reply": trajectory.final_reply,
        "verdict": _verdict(rollout.verdict) if rollout.HasField("verdict") else None,
    }


def summary(rollout: group_pb2.Rollout, failure: group_pb2.FailedAttempt | None) -> dict[str, Any]:
    """Who, how it ended, how much it took."""
    trajectory, verdict = rollout.trajectory, rollout.verdict
    return {
        "rollout_id": rollout.rollout_id,
        "slot": rollout.slot,
        "attempt": rollout.attempt,
        "episode_id": rollout.episode_id,
        "task_id": trajectory.task.task_id,
        "task_hash": trajectory.task.task_hash,
        "status": status_name(trajectory.status),
        "reward": verdict.reward if verdict.HasField("reward") else None,
        "seconds": round(rollout.seconds, 3),
        "tokens": len(trajectory.token_ids) or trajectory.prompt_tokens + trajectory.sampled_tokens,
        "sampled_tokens": sum(trajectory.loss_mask) or trajectory.sampled_tokens,
        "versions": sorted({span.version_number for span in trajectory.version_spans}),
        "failure": _failure(failure) if failure is not None else None,
    }


def status_name(status: int) -> str:
    """`truncated_turns` for ROLLOUT_STATUS_TRUNCATED_TURNS."""
    name = trajectory_pb2.RolloutStatus.Name(status)  # pyright: ignore[reportArgumentType]
    return name.removeprefix("ROLLOUT_STATUS_").lower()


def turn_as_json(turn: trajectory_pb2.Turn) -> dict[str, Any]:
    """One message and its calls, without its tokens."""
    kind = trajectory_pb2.TurnKind.Name(turn.kind).removeprefix("TURN_KIND_").lower()
    value: dict[str, Any] = {"kind": kind, "text": turn.text, "tokens": turn.token_length}
    if turn.reasoning:
        value["reasoning"] = turn.reasoning
    if turn.calls_in_reasoning:
        value["calls_in_reasoning"] = turn.calls_in_reasoning
    if turn.calls:
        value["calls"] = [
            {
                "name": call.name,
                "arguments": call.arguments_json,
                "content": call.content,
                "is_error": call.is_error,
                "seconds": round(call.seconds, 6),
            }
            for call in turn.calls
        ]
    return value


def _verdict(verdict: verdict_pb2.Verdict) -> dict[str, Any]:
    return {
        "status": verdict_pb2.VerdictStatus.Name(verdict.status)
        .removeprefix("VERDICT_STATUS_")
        .lower(),
        "reward": verdict.reward if verdict.HasField("reward") else None,
        "checks": [
            {
                "name": check.name,
                "kind": check.kind,
                "passed": check.passed,
                "expected": check.expected,
                "observed": check.observed,
            }
            for check in verdict.checks
        ],
        "diff": [_change(change) for change in verdict.diff],
        "checks_hash": verdict.checks_hash,
        "grader_hash": verdict.grader_hash,
        "initial_state_hash": verdict.initial_state_hash,
        "final_state_hash": verdict.final_state_hash,
    }


def _change(change: evidence_pb2.RowChange) -> dict[str, Any]:
    return {
        "table": change.table,
        "op": evidence_pb2.RowOp.Name(change.op).removeprefix("ROW_OP_").lower(),
        "key": _json(change.key_json),
        "before": _json(change.before_json),
        "after": _json(change.after_json),
    }


def _json(text: str) -> Any:
    return json.loads(text) if text else None


def _failure(failure: group_pb2.FailedAttempt) -> dict[str, Any]:
    return {
        "error_class": failure.error_class,
        "boundary": failure.boundary,
        "message": failure.message,
    }
