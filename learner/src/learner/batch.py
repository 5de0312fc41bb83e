"""Groups → the lines of one update, with each token's weight in the loss and its advantage.

The weight of a sampled token is 1 / M, M the sampled tokens of the whole update: every micro-batch
and every rank uses the same M, so splitting a batch changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learner.advantage import centered
from learner.group import Attempt, TakenGroup
from learner.line import Line


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """All of one update."""

    lines: tuple[Line, ...]
    tokens: int
    """Sampled tokens: the loss's denominator."""
    rewards: tuple[float, ...]
    zero_variance_groups: int
    groups: int

    @property
    def has_signal(self) -> bool:
        """False when no sampled token has an advantage: the gradient would be exactly zero."""
        return any(line.advantage != 0.0 and line.sampled.any() for line in self.lines)


def make_batch(groups: Sequence[TakenGroup]) -> Batch:
    """The lines of all attempts; nothing is dropped."""
    tokens = sum(int((a.loss_mask == 1).sum()) for group in groups for a in group.attempts)
    weight = 1.0 / max(tokens, 1)
    lines: list[Line] = []
    flat = 0
    for group in groups:
        advantages = centered(group.rewards())
        flat += not any(advantages)
        lines.extend(
            _line(group, attempt, weight, advantage)
            for attempt, advantage in zip(group.attempts, advantages, strict=True)
        )
    return Batch(
        lines=tuple(lines),
        tokens=tokens,
        rewards=tuple(reward for group in groups for reward in group.rewards()),
        zero_variance_groups=flat,
        groups=len(groups),
    )


def _line(group: TakenGroup, attempt: Attempt, weight: float, advantage: float) -> Line:
    return Line(
        key=f"{group.group_id}#{attempt.slot:06d}",
        token_ids=attempt.token_ids,
        sampled=np.asarray(attempt.loss_mask == 1),
        weight=weight,
        advantage=advantage,
        old_logprobs=attempt.logprobs,
        versions=attempt.versions(),
    )
