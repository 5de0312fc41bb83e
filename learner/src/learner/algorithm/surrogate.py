"""What is minimised at each token.

    clipped   L_t = −min(r_t A, clip(r_t, 1 − ε_low, 1 + ε_high) A)
    gspo      the same with s_i = exp(mean of log r_t over line i) in place of r_t
    cispo     L_t = −sg(clip(r_t, 1 − ε_low, 1 + ε_high)) A log π_θ(t)

sg stops the gradient. gspo's tokens share one ratio, so it goes with a mean over sequences. Sources:
PPO and DAPO (two bounds), GSPO (2507.18071), MiniMax-M1 (CISPO).
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, minimum

from learner.algorithm.ratio import line_means

Kind = Literal["clipped", "gspo", "cispo"]


@dataclass(frozen=True, slots=True)
class Surrogate:
    per_token: Tensor  # [N] L_t
    clipped_low: Tensor  # [N] bool: the lower bound decided
    clipped_high: Tensor  # [N] bool: the upper bound decided


def surrogate(
    kind: Kind,
    *,
    logprobs: Tensor,
    log_ratio: Tensor,
    advantages: Tensor,
    lines: Tensor,
    clip_low: float,
    clip_high: float,
) -> Surrogate:
    """All inputs are [N]; `log_ratio` is log r_t with the graph of `logprobs`."""
    ratio = (line_means(log_ratio, lines) if kind == "gspo" else log_ratio).exp()
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    below, above = ratio < 1.0 - clip_low, ratio > 1.0 + clip_high
    if kind == "cispo":
        return Surrogate(-bounded.detach() * advantages * logprobs, below, above)
    free, held = ratio * advantages, bounded * advantages
    decided = held < free
    return Surrogate(-minimum(free, held), decided & below, decided & above)
