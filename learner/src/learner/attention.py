"""Causal attention that cannot see across lines.

transformers asks an attention function by name; ours gets the lengths of the lines that lie packed
in one row and attends within each of them, and to the beginning that they share if they do. Without
one no mask is built: memory stays linear in the row.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

NAME = "envfarm_lines"
FALLBACK = "sdpa"


def attend(
    module: nn.Module,
    query: Tensor,  # [B, heads, T, D]
    key: Tensor,  # [B, key heads, T, D]
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    sliding_window: int | None = None,
    line_lengths: tuple[int, ...] | None = None,
    shared_length: int = 0,
    **_: object,
) -> tuple[Tensor, None]:
    """`line_lengths`: of a packed row; None for rows that hold a line each. The first
    `shared_length` positions of a packed row are the beginning of every line in it."""
    if attention_mask is not None or (sliding_window or query.shape[2]) < query.shape[2]:
        raise ValueError(f"{NAME} is causal over whole lines: no mask, no window")
    lengths = [query.shape[2]] if line_lengths is None else list(line_lengths)
    grouped = query.shape[1] != key.shape[1]
    own = zip(
        *(x[:, :, shared_length:].split(lengths, dim=2) for x in (query, key, value)), strict=True
    )
    if not shared_length:
        parts = [
            scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
            for q, k, v in own
        ]
        return torch.cat(parts, dim=2).transpose(1, 2), None
    begin = [x[:, :, :shared_length] for x in (query, key, value)]
    q, k, v = begin
    parts = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
    ]
    for asked, keys, values in own:
        seen = torch.ones(
            asked.shape[2], shared_length + asked.shape[2], dtype=torch.bool, device=query.device
        ).tril(shared_length)
        parts.append(
            scaled_dot_product_attention(
                asked,
                torch.cat([k, keys], dim=2),
                torch.cat([v, values], dim=2),
                attn_mask=seen,
                scale=scaling,
                enable_gqa=grouped,
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2), None
