"""The GRPO loss: a clipped surrogate, averaged over tokens.

Shapes: N sampled tokens of one micro-batch (loss mask 1), in row order; all inputs are [N].

    r_t = exp(clamp(log π_θ(t) − log π_old(t), ±20))
    L_t = −min(r_t · A_t, clip(r_t, 1 − ε_low, 1 + ε_high) · A_t)
    L   = Σ_t w_t · L_t

w_t is 1 / M, M the sampled tokens of the whole update: every micro-batch and every rank uses the
same M, so splitting a batch changes nothing. log π_old is the engine's raw log-probability of
the token when it was sampled; there is one optimizer step per batch, so no third policy. No KL.
"""

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""exp(20) is finite in float32 even when multiplied by an advantage and summed."""


def surrogate(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """(L_t, whether the clip decided) for each token."""
    wide = torch.promote_types(logprobs.dtype, torch.float32)
    log_ratio = logprobs.to(wide) - old_logprobs.to(wide)
    ratio = torch.exp(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    free = ratio * advantages
    bounded = ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    return -torch.minimum(free, bounded), bounded < free
