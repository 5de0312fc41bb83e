"""Group-relative advantage: one number per rollout, from the rewards of its group.

    centered   A_i = R_i − mean(R)
    std        A_i = (R_i − mean(R)) / (s + 1e-6)      s the sample deviation, over G − 1
    rloo       A_i = R_i − mean of the others           = G/(G−1) · centered

With rewards of 0 and 1 `std` gives very easy and very hard tasks more weight. A group whose rewards
are all equal gets exact zeros. Sources: GRPO (std), Dr. GRPO (centered), RLOO.
"""

import math
from collections.abc import Sequence
from typing import Literal

Kind = Literal["centered", "std", "rloo"]
STD_EPSILON = 1e-6


def advantages(rewards: Sequence[float], kind: Kind) -> list[float]:
    """One advantage per reward, same order; ValueError without two rewards to compare."""
    count = len(rewards)
    if count < 2:
        raise ValueError("an advantage compares at least two rewards")
    if min(rewards) == max(rewards):
        return [0.0] * count
    mean = math.fsum(rewards) / count
    centered = [reward - mean for reward in rewards]
    if kind == "centered":
        return centered
    if kind == "rloo":
        return [a * count / (count - 1) for a in centered]
    deviation = math.sqrt(math.fsum(a * a for a in centered) / (count - 1))
    return [a / (deviation + STD_EPSILON) for a in centered]
