"""Less memory for long rows: MLPs in pieces, and kept activations in main memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel


def tile_mlps(model: PreTrainedModel, tiles: int) -> None:
    """Run every MLP on `tiles` pieces of the row, made again in the backward pass one at a time.

    The number of pieces is fixed, so that ranks with rows of other lengths make equally many calls
    of a sharded layer; a short row has empty pieces. DeepSpeed's `TiledMLP` adds gradients outside
    the graph, a piece at a time, which only its own ZeRO understands; here they are one graph.
    """
    for layer in model.model.layers:  # pyright: ignore[reportAttributeAccessIssue, reportGeneralTypeIssues, reportOptionalIterable]
        mlp: Any = layer.mlp  # pyright: ignore[reportAttributeAccessIssue]
        mlp.forward = _tiled(mlp.forward, tiles)


def _tiled(whole: Callable[[Tensor], Tensor], tiles: int) -> Callable[[Tensor], Tensor]:
    def forward(hidden: Tensor) -> Tensor:  # [B, T, H]
        parts = hidden.tensor_split(tiles, dim=1)
        made: Any = [checkpoint(whole, part, use_reentrant=False) for part in parts]
        return torch.cat(made, dim=1)

    return forward


def keep_activations_in_main_memory(model: PreTrainedModel) -> None:
    """Of gradient checkpointing: what a layer is made again from waits in main memory."""
    for module in model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):
            module._gradient_checkpointing_func = _checkpoint_in_main_memory  # pyright: ignore


def _checkpoint_in_main_memory(layer: Callable[..., Tensor], hidden: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return layer(hidden)
    return _MadeAgain.apply(hidden, layer)  # pyright: ignore[reportReturnType]


class _MadeAgain(torch.autograd.Function):
    """A layer whose input is kept in main memory and which runs again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, layer: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.layer, ctx.device = layer, hidden.device
        ctx.kept = _to_main_memory(hidden)
        with torch.no_grad():
            return layer(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None]:
        hidden = ctx.kept.to(ctx.device, non_blocking=True).requires_grad_()
        with torch.enable_grad():
            made = ctx.layer(hidden)
        torch.autograd.backward(made, gradients[0])
        return hidden.grad, None


def _to_main_memory(values: Tensor) -> Tensor:
    """A copy; page-locked where there is a device, which may still be writing it on return."""
    pinned = values.device.type == "cuda"
    kept = torch.empty(values.shape, dtype=values.dtype, pin_memory=pinned)
    return kept.copy_(values.detach(), non_blocking=pinned)
