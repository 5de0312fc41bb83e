"""Bytes of the GroupStore → TakenGroup. The only place where the learner reads the Group message."""

import numpy as np
from envfarm.canonical import bytes_hash
from envfarm.errors import BadGroup
from envfarm.streams import PAYLOAD_VERSION
from envfarm.v1 import group_pb2, trajectory_pb2, verdict_pb2
from google.protobuf.message import DecodeError

from learner.group import Attempt, Span, TakenGroup

SCORED = {
    trajectory_pb2.ROLLOUT_STATUS_COMPLETED,
    trajectory_pb2.ROLLOUT_STATUS_TRUNCATED_TOKENS,
    trajectory_pb2.ROLLOUT_STATUS_TRUNCATED_TURNS,
    trajectory_pb2.ROLLOUT_STATUS_TRUNCATED_CALLS,
}


def decode(payload: bytes, sha256: str, group_id: str) -> TakenGroup:
    """Check the sum, parse, compare the id; BadGroup says which of them failed."""
    if bytes_hash(payload) != sha256:
        raise BadGroup(f"group {group_id}: its bytes do not match the entry's checksum")
    try:
        group = group_pb2.Group.FromString(payload)
    except DecodeError as error:
        raise BadGroup(f"group {group_id}: not a Group message") from error
    if group.schema_version != PAYLOAD_VERSION:
        raise BadGroup(
            f"group {group_id}: schema version {group.schema_version}, this learner reads "
            f"{PAYLOAD_VERSION}"
        )
    if group.group_id != group_id:
        raise BadGroup(f"group {group_id}: the bytes are of group {group.group_id!r}")
    return TakenGroup(
        group_id=group.group_id,
        run_id=group.run_id,
        task_id=group.task.task_id,
        task_hash=group.task.task_hash,
        initial_state_hash=group.initial_state_hash,
        size=group.size,
        policy_run=group.policy.run_id,
        policy_number=group.policy.number,
        policy_hash=group.policy.weights_hash,
        attempts=tuple(_attempt(rollout) for rollout in group.rollouts),
    )


def _attempt(rollout: group_pb2.Rollout) -> Attempt:
    trajectory, verdict = rollout.trajectory, rollout.verdict
    return Attempt(
        rollout_id=rollout.rollout_id,
        slot=rollout.slot,
        task_hash=trajectory.task.task_hash,
        verdict_task_hash=verdict.task.task_hash,
        initial_state_hash=verdict.initial_state_hash,
        renderer_hash=trajectory.renderer_hash,
        sampling_hash=trajectory.sampling_hash,
        scored_status=trajectory.status in SCORED,
        truncated=trajectory.status == trajectory_pb2.ROLLOUT_STATUS_TRUNCATED_TOKENS,
        graded=verdict.status == verdict_pb2.VERDICT_STATUS_GRADED,
        reward=verdict.reward if verdict.HasField("reward") else None,
        token_ids=np.array(trajectory.token_ids, dtype=np.int64),
        loss_mask=np.frombuffer(trajectory.loss_mask, dtype=np.uint8),
        logprobs=np.array(trajectory.logprobs, dtype=np.float32),
        spans=tuple(
            Span(start=span.start, length=span.length, number=span.version_number)
            for span in trajectory.version_spans
        ),
    )
