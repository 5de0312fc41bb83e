"""Scored groups without a gateway: whole Group messages, and their publication as streams.py says."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import redis
from envfarm import streams
from envfarm.canonical import bytes_hash
from envfarm.v1 import (
    group_pb2,
    policy_pb2,
    task_pb2,
    trajectory_pb2,
    verdict_pb2,
)

from tests.support.learner_samples import SAMPLING

Scorer = Callable[[list[int]], list[float]]
"""[T] ids → [T-1] log-probabilities of ids[1:]."""

TASK_HASH = "a" * 64
STATE_HASH = "b" * 64


def policy(number: int, weights_hash: str, run_id: str = "run") -> policy_pb2.PolicyVersion:
    return policy_pb2.PolicyVersion(run_id=run_id, number=number, weights_hash=weights_hash)


def make_group(
    group_id: str,
    rewards: Sequence[float],
    version: policy_pb2.PolicyVersion,
    score: Scorer,
    *,
    seed: int,
    vocabulary: int = 500,
    shortest: int = 12,
    longest: int = 40,
) -> group_pb2.Group:
    """One rollout per reward, random tokens, two sampled stretches each."""
    random_numbers = random.Random(seed)
    task = task_pb2.TaskRef(task_id="orders/refund", task_hash=TASK_HASH)
    group = group_pb2.Group(
        schema_version=streams.PAYLOAD_VERSION,
        group_id=group_id,
        run_id=version.run_id,
        task=task,
        initial_state_hash=STATE_HASH,
        size=len(rewards),
        policy=version,
    )
    for slot, reward in enumerate(rewards):
        ids = [
            random_numbers.randrange(vocabulary)
            for _ in range(random_numbers.randint(shortest, longest))
        ]
        third = len(ids) // 3
        spans = [(third, third // 2), (2 * third, len(ids) - 2 * third)]
        mask = bytearray(len(ids))
        for start, length in spans:
            mask[start : start + length] = b"\x01" * length
        logprobs = [0.0, *score(ids)]
        rollout_id = f"{group_id}.s{slot}.a1"
        group.rollouts.append(
            group_pb2.Rollout(
                rollout_id=rollout_id,
                slot=slot,
                attempt=1,
                episode_id=f"ep-{rollout_id}",
                trajectory=trajectory_pb2.Trajectory(
                    schema_version=1,
                    rollout_id=rollout_id,
                    task=task,
                    token_ids=ids,
                    loss_mask=bytes(mask),
                    logprobs=[p if m else 0.0 for p, m in zip(logprobs, mask, strict=True)],
                    version_spans=[
                        trajectory_pb2.VersionSpan(
                            start=start, length=length, version_number=version.number
                        )
                        for start, length in spans
                    ],
                    status=trajectory_pb2.ROLLOUT_STATUS_COMPLETED,
                    renderer_hash="c" * 64,
                    sampling_hash=SAMPLING.hash,
                ),
                verdict=verdict_pb2.Verdict(
                    verdict_id=f"v-{rollout_id}",
                    task=task,
                    status=verdict_pb2.VERDICT_STATUS_GRADED,
                    reward=reward,
                    initial_state_hash=STATE_HASH,
                ),
            )
        )
    return group


def publish(
    client: redis.Redis,
    group: group_pb2.Group,
    *,
    folder: Path | None = None,
    run_id: str = "run",
    payload: bytes | None = None,
) -> str:
    """Store the bytes (Redis key, or a file in `folder`), add the entry; returns its id.

    `payload` replaces the bytes but not their checksum: a torn group.
    """
    data = group.SerializeToString(deterministic=True)
    stored = data if payload is None else payload
    if folder is None:
        key = streams.group_key(run_id, group.group_id)
        client.set(key, stored)
    else:
        key = f"{group.group_id}.pb"
        (folder / key).write_bytes(stored)
    fields = {
        streams.FIELD_VERSION: str(streams.PAYLOAD_VERSION),
        streams.FIELD_GROUP_ID: group.group_id,
        streams.FIELD_TASK_ID: group.task.task_id,
        streams.FIELD_STORE_KEY: key,
        streams.FIELD_SHA256: bytes_hash(data),
        streams.FIELD_BYTES: str(len(data)),
        streams.FIELD_POLICY_NUMBER: str(group.policy.number),
        streams.FIELD_POLICY_HASH: group.policy.weights_hash,
        streams.FIELD_REWARDS: ",".join(f"{r.verdict.reward:g}" for r in group.rollouts),
    }
    entry_id = client.xadd(streams.group_stream(run_id), fields)  # pyright: ignore[reportArgumentType]
    return entry_id.decode()  # pyright: ignore[reportAttributeAccessIssue]
