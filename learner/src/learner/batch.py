"""Groups → micro-batches: rows padded on the right, in an order that depends on nothing else.

Shapes: B rows, T the longest row of the micro-batch. Position t of `targets`, `sampled`,
`old_logprobs` and `versions` speaks of token t + 1, which the model predicts at position t; this
is the only place where that shift is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from learner.advantage import centered
from learner.group import Attempt, TakenGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    token_ids: Tensor  # [B, T] long
    attention_mask: Tensor  # [B, T] long, 1 on real tokens
    targets: Tensor  # [B, T-1] long
    sampled: Tensor  # [B, T-1] bool: the target was sampled by the policy
    old_logprobs: Tensor  # [B, T-1] float32, the engine's
    versions: Tensor  # [B, T-1] long, -1 where not sampled
    advantages: Tensor  # [B, T-1] float32, the row's advantage

    @property
    def tokens(self) -> int:
        """Sampled tokens."""
        return int(self.sampled.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """All of one update."""

    micro_batches: tuple[MicroBatch, ...]
    tokens: int
    """Sampled tokens: the loss's denominator."""
    rewards: tuple[float, ...]
    zero_variance_groups: int
    groups: int

    @property
    def has_signal(self) -> bool:
        """False when no sampled token has an advantage: the gradient would be exactly zero."""
        return any(bool(m.advantages[m.sampled].any()) for m in self.micro_batches)


Row = tuple[Attempt, float]


def make_batch(groups: Sequence[TakenGroup], micro_batch_tokens: int) -> Batch:
    """Rows sorted by length, then group and slot; a micro-batch holds ≤ B·T padded positions."""
    rows: list[tuple[int, str, int, Row]] = []
    flat = 0
    for group in groups:
        advantages = centered(group.rewards())
        flat += not any(advantages)
        rows.extend(
            (len(a.token_ids), group.group_id, a.slot, (a, advantage))
            for a, advantage in zip(group.attempts, advantages, strict=True)
        )
    rows.sort(key=lambda row: row[:3])
    micro_batches = tuple(_pad(part) for part in _split([r[3] for r in rows], micro_batch_tokens))
    return Batch(
        micro_batches=micro_batches,
        tokens=sum(m.tokens for m in micro_batches),
        rewards=tuple(reward for group in groups for reward in group.rewards()),
        zero_variance_groups=flat,
        groups=len(groups),
    )


def _split(rows: list[Row], micro_batch_tokens: int) -> list[list[Row]]:
    """Rows come sorted by length, so the last one of a part is its longest."""
    parts: list[list[Row]] = [[]]
    for row in rows:
        if parts[-1] and (len(parts[-1]) + 1) * len(row[0].token_ids) > micro_batch_tokens:
            parts.append([])
        parts[-1].append(row)
    return [part for part in parts if part]


def _pad(rows: list[Row]) -> MicroBatch:
    width = max(len(attempt.token_ids) for attempt, _ in rows)
    shape = (len(rows), width)
    token_ids = torch.zeros(shape, dtype=torch.long)
    attention_mask = torch.zeros(shape, dtype=torch.long)
    mask = torch.zeros(shape, dtype=torch.bool)
    logprobs = torch.zeros(shape, dtype=torch.float32)
    versions = torch.full(shape, -1, dtype=torch.long)
    for i, (attempt, _) in enumerate(rows):
        n = len(attempt.token_ids)
        token_ids[i, :n] = torch.from_numpy(attempt.token_ids)
        attention_mask[i, :n] = 1
        mask[i, :n] = torch.from_numpy(attempt.loss_mask == 1)
        logprobs[i, :n] = torch.from_numpy(attempt.logprobs)
        versions[i, :n] = torch.from_numpy(attempt.versions())
    advantages = torch.tensor([advantage for _, advantage in rows], dtype=torch.float32)
    return MicroBatch(
        token_ids=token_ids,
        attention_mask=attention_mask,
        targets=token_ids[:, 1:],
        sampled=mask[:, 1:],
        old_logprobs=logprobs[:, 1:],
        versions=versions[:, 1:],
        advantages=advantages[:, None].expand(-1, width - 1),
    )
