"""Group-relative advantage.

    A_i = R_i − mean(R)          over the G rollouts of one group

No division by the standard deviation: with rewards of 0 and 1 it would give very easy and very
hard tasks more weight. A group whose rewards are all equal gets A_i = 0 everywhere.
"""

import math
from collections.abc import Sequence


def centered(rewards: Sequence[float]) -> list[float]:
    """One advantage per reward; a group without variance gives exact zeros."""
    if not rewards:
        raise ValueError("a group without rewards has no advantage")
    if min(rewards) == max(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]
