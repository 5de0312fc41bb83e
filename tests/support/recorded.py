"""Recorded rollouts without a gateway: records.bin files, written frame by frame."""

import struct
from collections.abc import Sequence
from pathlib import Path

from envfarm.v1 import group_pb2

from tests.support.groups import make_group, policy

HEAD = struct.Struct(">BI")


def write_records(
    folder: Path, rollouts: Sequence[group_pb2.Rollout], *, torn: bytes = b"", noise: bool = True
) -> Path:
    """`folder`/records.bin, with frames of other kinds between and `torn` at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b""
    for rollout in rollouts:
        message = rollout.SerializeToString()
        data += HEAD.pack(1, len(message)) + message
        if noise:
            data += HEAD.pack(3, 2) + b"\x08\x01"
    path = folder / "records.bin"
    path.write_bytes(data + torn)
    return path


def rollouts(rewards: Sequence[float], *, name: str = "g", seed: int = 1, **lengths: int):
    """One rollout per reward, random tokens below 250."""
    group = make_group(
        name,
        rewards,
        policy(0, "h"),
        lambda ids: [-1.0] * (len(ids) - 1),
        seed=seed,
        vocabulary=250,
        **lengths,
    )
    return list(group.rollouts)
