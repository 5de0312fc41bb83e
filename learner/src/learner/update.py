"""Forward and backward of one update: every micro-batch of this rank, then the sums over ranks."""

from dataclasses import dataclass

import torch
from torch import Tensor

from learner import process_group
from learner.batch import Batch
from learner.config import Config
from learner.engine import TrainerEngine
from learner.loss import surrogate
from learner.micro_batch import MicroBatch, split


@dataclass(frozen=True, kw_only=True, slots=True)
class PassResult:
    """Forward and backward of one update; the optimizer has not moved yet."""

    loss: float
    clip_share: float
    mismatch_gap: float
    """Largest |engine − learner| on tokens of the current version; 0 when there were none."""
    padding_share: float
    """Of all positions that went through the model."""


def forward_backward(
    engine: TrainerEngine, batch: Batch, config: Config, *, current_version: int | None
) -> PassResult:
    """Gradients of the whole update. `current_version` is the number whose weights these are
    exactly, or None when no engine has them. A batch without a signal makes no gradient."""
    shares = split(
        batch.lines,
        tokens=config.batch.micro_batch_tokens,
        packed=config.batch.layout == "packed",
        ranks=engine.ranks,
    )
    loss, clipped, gap = 0.0, 0, 0.0
    for part in shares[process_group.rank()]:
        with torch.set_grad_enabled(batch.has_signal):
            logprobs = engine.score(part)[0]
            per_token, was_clipped = surrogate(
                logprobs,
                part.old_logprobs.to(logprobs.device),
                part.advantages.to(logprobs),
                config.loss.clip_low,
                config.loss.clip_high,
            )
            share = (per_token * part.weights.to(logprobs)).sum()
        if batch.has_signal:
            engine.backward(share)
        loss += float(share.detach())
        clipped += int(was_clipped.sum())
        gap = max(gap, _gap(part, logprobs.detach(), current_version))
    positions = sum(part.token_ids.numel() for parts in shares for part in parts)
    return PassResult(
        loss=process_group.total(loss),
        clip_share=process_group.total(clipped) / max(batch.tokens, 1),
        mismatch_gap=process_group.highest(gap),
        padding_share=1.0 - sum(map(len, batch.lines)) / positions,
    )


def _gap(part: MicroBatch, logprobs: Tensor, current_version: int | None) -> float:
    if current_version is None:
        return 0.0
    current = part.versions == current_version
    gaps = (logprobs.cpu() - part.old_logprobs).abs()[current]
    return float(gaps.max()) if gaps.numel() else 0.0
