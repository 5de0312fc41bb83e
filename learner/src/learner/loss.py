"""The GRPO loss: a clipped surrogate, averaged over tokens.

Shapes: N sampled tokens of one micro-batch (loss mask 1), in row order; all inputs are [N].

    r_t = exp(clamp(log π_θ(t) − log π_old(t), ±20))
    L_t = −min(r_t · A_t, clip(r_t, 1 − ε_low, 1 + ε_high) · A_t)
    L   = (1 / M) · Σ_t L_t

M is the number of sampled tokens of the whole update: every micro-batch and every rank divides by
the same M, so splitting a batch changes nothing. log π_old is the engine's raw log-probability of
the token when it was sampled; there is one optimizer step per batch, so no third policy. No KL.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""exp(20) is finite in float32 even when multiplied by an advantage and summed."""


@dataclass(frozen=True, slots=True)
class LossParts:
    """One micro-batch's share of the loss; the numbers hold no graph."""

    loss: Tensor
    """Scalar with a graph: Σ L_t / M."""
    tokens: int
    clipped: int
    """Tokens where the clipped branch was taken."""
    largest_log_ratio: float


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


def token_mean(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    update_tokens: int,
) -> LossParts:
    """Σ L_t / M of one micro-batch, M = `update_tokens`; an empty one gives 0 with a graph."""
    per_token, clipped = surrogate(logprobs, old_logprobs, advantages, clip_low, clip_high)
    gap = (logprobs.detach() - old_logprobs).abs()
    return LossParts(
        loss=per_token.sum() / max(update_tokens, 1),
        tokens=logprobs.numel(),
        clipped=int(clipped.sum()),
        largest_log_ratio=float(gap.max()) if gap.numel() else 0.0,
    )
