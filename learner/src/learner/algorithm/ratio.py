"""Probability ratios from log-probabilities, safe to exponentiate."""

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""exp(20) is finite in float32 even when multiplied by an advantage and summed."""


def log_ratio(above: Tensor, below: Tensor) -> Tensor:
    """[N] log(above / below) of two log-probabilities, in float32 or wider, within ±20."""
    wide = torch.promote_types(torch.promote_types(above.dtype, below.dtype), torch.float32)
    return (above.to(wide) - below.to(wide)).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def line_means(values: Tensor, lines: Tensor) -> Tensor:
    """[N] the mean of `values` over the tokens of each token's line."""
    count = int(lines.max()) + 1 if len(lines) else 0
    zeros = values.new_zeros(count)
    sums = zeros.index_add(0, lines, values)
    sizes = zeros.index_add(0, lines, torch.ones_like(values))
    return (sums / sizes.clamp(min=1))[lines]
