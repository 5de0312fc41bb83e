"""Rollouts that ran into the token limit, as DAPO treats them.

keep       as they are
mask       their tokens leave the loss and its denominator; their reward stays in the group
penalty    is added to the reward, n the sampled tokens of the rollout:
           0                         n ≤ L_max − C
           (L_max − C − n) / C       L_max − C < n ≤ L_max
           −1                        n > L_max
"""

from typing import Literal

Kind = Literal["keep", "mask", "penalty"]


def penalty(sampled_tokens: int, limit: int, buffer: int) -> float:
    """`limit` is L_max and `buffer` C, in tokens."""
    over = sampled_tokens - (limit - buffer)
    if over <= 0:
        return 0.0
    return -1.0 if sampled_tokens > limit else -over / buffer
