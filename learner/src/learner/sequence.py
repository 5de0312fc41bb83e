"""Sequence parallelism (DeepSpeed Ulysses): neighbouring ranks share the positions of every row.

Each of S ranks holds T/S positions of a row; inside attention an exchange gives each the whole row for
its share of the heads, and afterwards its own positions for all heads again. The exchange is
DeepSpeed's; its `UlyssesSPAttentionHF` is not used, because it fixes the number of rows and gathers
positions in every layer. Linear attention is shared out the same way, by heads; its short convolution
reads the few positions before its own from the rank before.

Shapes: B rows, T positions, h heads, D values a head, C channels, N targets.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from deepspeed.sequence.layer import (
    _dim_zero_all_to_all,  # pyright: ignore[reportPrivateUsage]
    register_all_to_all_group,
)
from torch import Tensor
from torch.nn.functional import pad

from learner import attention, micro_batch
from learner.micro_batch import MicroBatch

NAME = "envfarm_ulysses"


class SequenceGroup:
    """The ranks that share rows with this one; all of them call the same methods in one order."""

    def __init__(self, size: int):
        """Join; every rank of the process group does so. `size` divides the number of ranks."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        groups = [dist.new_group(range(i, i + size)) for i in range(0, ranks, size)]
        self.group: Any = groups[rank // size]
        self.size, self.index = size, rank % size
        register_all_to_all_group(self.group)

    # positions and heads

    def to_heads(self, values: Tensor) -> Tensor:
        """[B, h, T/S, D] → [B, h/S, T, D]; fewer heads than ranks are repeated."""
        if values.shape[1] < self.size:
            values = values.repeat_interleave(self.size // values.shape[1], dim=1)
        rows, heads, own, width = values.shape
        parts = values.reshape(rows, self.size, heads // self.size, own, width).movedim(1, 0)
        got = _dim_zero_all_to_all(
            self.group, parts
        )  # [S, B, h/S, T/S, D], a rank's positions each
        return got.permute(1, 2, 0, 3, 4).reshape(rows, heads // self.size, -1, width)

    def to_positions(self, values: Tensor) -> Tensor:
        """[B, h/S, T, D] → [B, h, T/S, D]."""
        rows, heads, whole, width = values.shape
        parts = values.reshape(rows, heads, self.size, whole // self.size, width).movedim(2, 0)
        got = _dim_zero_all_to_all(self.group, parts)  # [S, B, h/S, T/S, D], a rank's heads each
        return got.movedim(0, 1).reshape(rows, heads * self.size, -1, width)

    def attend(
        self,
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        **known: Any,
    ) -> tuple[Tensor, None]:
        """`attention.attend` on rows that are shared out; `line_lengths` are of the whole row."""
        q, k, v = map(self.to_heads, (query, key, value))
        made, _ = attention.attend(module, q, k, v, mask, **known)
        return self.to_positions(made.transpose(1, 2)).transpose(1, 2), None

    # linear attention

    def with_halo(self, values: Tensor, count: int) -> Tensor:
        """[B, C, T/S] → [B, C, count + T/S]: the positions before, zeros before the first."""
        return torch.cat([_Halo.apply(values[:, :, -count:], self), values], dim=2)  # pyright: ignore

    def share_linear_attention(self, modeling: Any) -> None:
        """Make the two functions of qwen3_5's module that mix positions work on rows that are shared
        out, in this process."""
        modeling.causal_conv1d_fn = self._shared_convolution(modeling.causal_conv1d_fn)
        modeling.torch_chunk_gated_delta_rule = self._shared_rule(
            modeling.torch_chunk_gated_delta_rule
        )

    def _shared_convolution(self, convolve: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def convolved(values: Tensor, weight: Tensor, *more: Any, **known: Any) -> Tensor:
            before = weight.shape[-1] - 1
            return convolve(self.with_halo(values, before), weight, *more, **known)[:, :, before:]

        return convolved

    def _shared_rule(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        def exchanged(values: Tensor) -> Tensor:  # [B, T/S, h, …] → [B, T, h/S, …]
            wide = values if values.dim() == 4 else values[..., None]
            made = self.to_heads(wide.transpose(1, 2)).transpose(1, 2)
            return made if values.dim() == 4 else made[..., 0]

        def ruled(
            query: Tensor, key: Tensor, value: Tensor, *, g: Tensor, beta: Tensor, **known: Any
        ) -> tuple[Tensor, None]:
            q, k, v, decay, gain = map(exchanged, (query, key, value, g, beta))
            made, _ = rule(q, k, v, g=decay, beta=gain, **known)
            return self.to_positions(made.transpose(1, 2)).transpose(1, 2), None

        return ruled

    # micro-batches

    def own(self, part: MicroBatch) -> tuple[MicroBatch, Tensor]:
        """This rank's positions of a micro-batch, and which of its targets they predict. Rows are
        padded on the right until the ranks have equally many."""
        rows, width = part.token_ids.shape
        own = micro_batch.own_width(width, self.size)
        padding, start = own * self.size - width, own * self.index
        lengths = (*part.lengths, padding) if part.packed and padding else part.lengths
        mine = micro_batch.owners(part, self.size) == self.index
        place = part.predicts[mine]
        share = replace(
            part,
            token_ids=pad(part.token_ids, (0, padding))[:, start : start + own].contiguous(),
            positions=pad(part.positions, (0, padding))[:, start : start + own].contiguous(),
            lengths=lengths,
            predicts=place // width * own + place % width - start,
            targets=part.targets[mine],
        )
        assert share.token_ids.shape == (rows, own)
        return share, mine.nonzero()[:, 0]

    def joined(self, scores: Tensor, mine: Tensor, count: int) -> Tensor:
        """[2, N] of all targets on every rank, from each rank's; gradients go to their own rank."""
        return _Joined.apply(scores, mine.to(scores.device), count, self.group)  # pyright: ignore


class _Halo(torch.autograd.Function):
    """The last positions of the rank before; the gradient goes back to it."""

    @staticmethod
    def forward(ctx: Any, tail: Tensor, shared: SequenceGroup) -> Tensor:
        ctx.shared = shared
        return _from(tail, shared, shared.index - 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _from(gradients[0], ctx.shared, ctx.shared.index + 1), None


def _from(values: Tensor, shared: SequenceGroup, index: int) -> Tensor:
    """What the rank `index` of the group brought; zeros where there is none."""
    parts = [torch.empty_like(values) for _ in range(shared.size)]
    dist.all_gather(parts, values.contiguous(), group=shared.group)
    return parts[index] if 0 <= index < shared.size else torch.zeros_like(values)


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, mine: Tensor, count: int, group: Any) -> Tensor:
        ctx.save_for_backward(mine)
        whole = scores.new_zeros(scores.shape[0], count)
        whole[:, mine] = scores
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (mine,) = ctx.saved_tensors
        return gradients[0][:, mine], None, None, None
