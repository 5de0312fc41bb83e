"""The permuted control: every group's rewards in another order, so that there is nothing to learn.

Whoever claims that a policy learned from its rewards trains once more with them permuted: a gain
that is still there came from something else. Which attempt gets which reward depends on seed and
group id alone, so a run that was killed goes on as it began. Mean and variance of a group stay.
"""

import random
from dataclasses import replace

from learner.group import TakenGroup

PREFIX = "control-"
"""Begins the id of every control run, and of no other: it cannot be left on by accident."""


def permuted(group: TakenGroup, seed: int) -> TakenGroup:
    """`group` with its rewards shuffled over its attempts; nothing else changes."""
    rewards = [attempt.reward for attempt in group.attempts]
    random.Random(f"{seed}:{group.group_id}").shuffle(rewards)
    attempts = tuple(
        replace(attempt, reward=reward)
        for attempt, reward in zip(group.attempts, rewards, strict=True)
    )
    return replace(group, attempts=attempts)
