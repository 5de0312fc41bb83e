"""Recorded rollouts → conversations to learn from, with a count of what was left out and why."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from envfarm.errors import ConfigError
from envfarm.record_frames import read_rollouts, record_files
from envfarm.v1 import group_pb2, verdict_pb2
from numpy.typing import NDArray

from learner.decode import SCORED
from learner.sft.config import Data


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    rollout_id: str
    task_id: str
    token_ids: NDArray[np.int64]  # [T]
    sampled: NDArray[np.bool_]  # [T], the policy's tokens
    reward: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """What one [[data]] entry gave."""

    conversations: tuple[Conversation, ...]
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    folders: tuple[Folder, ...]
    left_out: dict[str, int]
    """Rollouts by reason."""
    renderer_hash: str
    data_hash: str
    """SHA-256 (hex) over tokens and masks of every conversation, in order."""

    @property
    def conversations(self) -> int:
        return sum(len(folder.conversations) for folder in self.folders)


def read(data: Iterable[Data], *, max_tokens: int, vocabulary: int) -> Corpus:
    """Read every folder; the same rollout of two files is taken once.

    Raises ConfigError when nothing is left, when renderers differ, or when a token is not in the
    model's vocabulary.
    """
    left_out: Counter[str] = Counter()
    renderers: dict[str, Path] = {}
    seen: set[str] = set()
    folders = []
    for entry in data:
        kept = []
        for path in record_files(entry.path):
            for rollout in read_rollouts(path):
                reason = _unfit(rollout, entry.rewards, max_tokens)
                if reason is None and rollout.rollout_id in seen:
                    reason = "recorded_twice"
                if reason is not None:
                    left_out[reason] += 1
                    continue
                seen.add(rollout.rollout_id)
                renderers.setdefault(rollout.trajectory.renderer_hash, path)
                kept.append(_conversation(rollout, path, vocabulary))
        kept.sort(key=lambda conversation: conversation.rollout_id)
        folders.append(Folder(conversations=tuple(kept), weight=entry.weight))
    if not any(folder.conversations for folder in folders):
        raise ConfigError(
            "data: no rollout is left to learn from "
            f"({', '.join(f'{count} {why}' for why, count in left_out.items()) or 'none read'})",
            hint='name other folders, or take rewards = "all"',
        )
    if len(renderers) > 1:
        raise ConfigError(
            "data: rollouts of different tokenizers or chat formats: "
            + ", ".join(f"{digest[:12]}… in {path}" for digest, path in renderers.items()),
            hint="learn from records of one renderer",
        )
    return Corpus(
        folders=tuple(folders),
        left_out=dict(sorted(left_out.items())),
        renderer_hash=next(iter(renderers)),
        data_hash=_digest(folders),
    )


def _unfit(rollout: group_pb2.Rollout, rewards: str, max_tokens: int) -> str | None:
    verdict, trajectory = rollout.verdict, rollout.trajectory
    graded = verdict.status == verdict_pb2.VERDICT_STATUS_GRADED and verdict.HasField("reward")
    if trajectory.status not in SCORED or not graded:
        return "no_reward"
    if rewards == "passed" and verdict.reward != 1.0:
        return "not_passed"
    if 1 not in trajectory.loss_mask:
        return "no_policy_tokens"
    return "too_long" if len(trajectory.token_ids) > max_tokens else None


def _conversation(rollout: group_pb2.Rollout, path: Path, vocabulary: int) -> Conversation:
    trajectory = rollout.trajectory
    ids = np.array(trajectory.token_ids, dtype=np.int64)
    mask = np.frombuffer(trajectory.loss_mask, dtype=np.uint8)
    where = f"{path}: rollout {rollout.rollout_id}"
    if len(ids) != len(mask) or mask.max() > 1 or mask[0] != 0:
        raise ConfigError(f"{where}: its loss mask does not fit its tokens")
    if ids.max() >= vocabulary:
        raise ConfigError(
            f"{where}: token {ids.max()} is not in the model's vocabulary of {vocabulary}",
            hint="learn from records that were made with this model's tokenizer",
        )
    return Conversation(
        rollout_id=rollout.rollout_id,
        task_id=trajectory.task.task_id,
        token_ids=ids,
        sampled=mask == 1,
        reward=rollout.verdict.reward,
    )


def _digest(folders: list[Folder]) -> str:
    total = hashlib.sha256()
    for folder in folders:
        total.update(json.dumps(len(folder.conversations)).encode())
        for one in folder.conversations:
            total.update(one.token_ids.tobytes() + one.sampled.tobytes())
    return total.hexdigest()
