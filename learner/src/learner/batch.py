"""Groups → the lines of one update, with each token's weight in the loss and its advantage.

Everything that needs the whole update is decided here (advantages, masks, the aggregation's
denominators), so that what follows may be split over micro-batches and ranks in any way.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner.algorithm import aggregation, overlong
from learner.algorithm.advantage import advantages
from learner.algorithm.recipe import Algorithm
from learner.group import Attempt, TakenGroup
from learner.line import Line
from learner.update import Work


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """All of one update."""

    lines: tuple[Line, ...]
    tokens: int
    """Sampled tokens that the loss looks at."""
    masked_tokens: int
    """Sampled tokens that the overlong rule took out."""
    prompt_tokens: int
    """Tokens that the policy did not sample."""
    rewards: tuple[float, ...]
    """As graded, before any penalty."""
    advantage_spread: float
    """Population deviation of the advantages of all rollouts."""
    zero_variance_groups: int
    groups: int
    has_signal: bool
    """False when the gradient would be exactly zero: no sampled token has an advantage, and the
    algorithm has no term of its own."""

    @property
    def work(self) -> Work:
        return Work(lines=self.lines, tokens=self.tokens, has_signal=self.has_signal)


def make_batch(groups: Sequence[TakenGroup], algorithm: Algorithm) -> Batch:
    """The lines of all attempts; none is dropped, one may be masked whole."""
    attempts = [attempt for group in groups for attempt in group.attempts]
    given = [a for group in groups for a in _advantages(group, algorithm)]
    sampled = [_trained(attempt, algorithm) for attempt in attempts]
    lengths = [int(mask.sum()) for mask in sampled]
    weights = aggregation.weights(lengths, algorithm.aggregation, algorithm.constant_tokens)
    keys = [
        f"{group.group_id}#{attempt.slot:06d}" for group in groups for attempt in group.attempts
    ]
    lines = tuple(
        Line(
            key=key,
            token_ids=attempt.token_ids,
            sampled=mask,
            weight=weight,
            advantage=advantage,
            old_logprobs=attempt.logprobs,
            versions=attempt.versions(),
        )
        for key, attempt, mask, weight, advantage in zip(
            keys, attempts, sampled, weights, given, strict=True
        )
    )
    everything = sum(len(attempt.token_ids) for attempt in attempts)
    policy = sum(int((attempt.loss_mask == 1).sum()) for attempt in attempts)
    taught = any(a != 0.0 and n for a, n in zip(given, lengths, strict=True))
    rewards = [group.rewards() for group in groups]
    return Batch(
        lines=lines,
        tokens=sum(lengths),
        masked_tokens=policy - sum(lengths),
        prompt_tokens=everything - policy,
        rewards=tuple(reward for some in rewards for reward in some),
        advantage_spread=statistics.pstdev(given),
        zero_variance_groups=sum(min(some) == max(some) for some in rewards),
        groups=len(groups),
        has_signal=taught or (algorithm.has_terms_of_its_own and sum(lengths) > 0),
    )


def _advantages(group: TakenGroup, algorithm: Algorithm) -> list[float]:
    rewards = group.rewards()
    if algorithm.overlong == "penalty":
        limit, buffer = algorithm.overlong_tokens, algorithm.overlong_buffer
        rewards = [
            reward + overlong.penalty(int((a.loss_mask == 1).sum()), limit, buffer)
            for reward, a in zip(rewards, group.attempts, strict=True)
        ]
    return advantages(rewards, algorithm.advantage)


def _trained(attempt: Attempt, algorithm: Algorithm) -> NDArray[np.bool_]:
    """Which tokens the loss looks at."""
    if algorithm.overlong == "mask" and attempt.truncated:
        return np.zeros(len(attempt.token_ids), dtype=bool)
    return np.asarray(attempt.loss_mask == 1)
