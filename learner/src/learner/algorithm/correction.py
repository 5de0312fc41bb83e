"""Importance weights for tokens that other probabilities sampled than the learner's.

    ρ_t = sg(π_θ(t)) / μ(t)
    none            weight 1, and the ratio r_t is taken to μ
    tis             min(ρ_t, high)
    icepop          ρ_t if low ≤ ρ_t ≤ high, else 0
    sequence_mask   1 if low ≤ exp(mean of log ρ_t over line i) ≤ high, else 0

Anything but none takes r_t to the learner as it stood before the step, which with one step per batch
is the learner itself: no second forward pass is needed. The sum's denominator keeps the tokens that
get weight 0. ρ is right only if μ is what was sampled from: temperature 1, no top-k, no top-p.
"""

from typing import Literal

import torch
from torch import Tensor

from learner.algorithm.ratio import line_means

Kind = Literal["none", "tis", "icepop", "sequence_mask"]


def weights(kind: Kind, log_rho: Tensor, lines: Tensor, low: float, high: float) -> Tensor:
    """[N] one weight per token, without a gradient."""
    log_rho = log_rho.detach()
    rho = log_rho.exp()
    if kind == "none":
        return torch.ones_like(rho)
    if kind == "tis":
        return rho.clamp(max=high)
    if kind == "icepop":
        return torch.where((rho >= low) & (rho <= high), rho, 0.0)
    mean = line_means(log_rho, lines).exp()
    return ((mean >= low) & (mean <= high)).to(rho)
