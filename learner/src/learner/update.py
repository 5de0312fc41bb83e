"""Forward and backward of one update: every micro-batch of this rank, then the sums over ranks."""

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from learner import process_group
from learner.algorithm.loss import Share, Tokens, share
from learner.algorithm.recipe import Algorithm
from learner.engine import TrainerEngine
from learner.line import Line
from learner.micro_batch import MicroBatch, split
from learner.model_config import Layout
from learner.reference_model import ReferenceModel

QUANTILES = {"p01": 0.01, "p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a pass needs of a batch."""

    lines: tuple[Line, ...]
    tokens: int
    """Sampled tokens that the loss looks at."""
    has_signal: bool
    """False when the gradient would be exactly zero."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassResult:
    """Forward and backward of one update; the optimizer has not moved yet. Over all ranks."""

    loss: float
    mismatch_gap: float
    """Largest |engine − learner| on tokens of the current version, in nats; 0 without any."""
    forward_seconds: float
    backward_seconds: float
    """Of rank 0."""
    figures: dict[str, Any]
    """What else an update is watched by; keys as in steps.jsonl."""


@dataclass(slots=True)
class _Seen:
    """What the micro-batches of this rank gave, as plain tensors."""

    loss: float = 0.0
    log_ratio: list[Tensor] = field(default_factory=list)
    fresh: list[Tensor] = field(default_factory=list)
    """|engine − learner| on tokens of the current version."""
    entropy: float = 0.0
    kl: float = 0.0
    low: int = 0
    high: int = 0
    forward_seconds: float = 0.0
    backward_seconds: float = 0.0
    dropped: int = 0
    """Tokens that the correction weighed 0."""

    def add(self, part: MicroBatch, made: Share, entropy: Tensor, current: int | None) -> None:
        self.loss += float(made.loss.detach())
        log_ratio = made.log_ratio.float().cpu()
        self.log_ratio.append(log_ratio)
        if current is not None:
            self.fresh.append(log_ratio.abs()[part.versions == current])
        self.entropy += float(entropy.detach().sum())
        self.kl += float(made.kl.sum())
        self.low += int(made.clipped_low.sum())
        self.high += int(made.clipped_high.sum())
        self.dropped += int((made.correction == 0).sum())


def forward_backward(
    engine: TrainerEngine,
    work: Work,
    algorithm: Algorithm,
    layout: Layout,
    *,
    current_version: int | None,
    reference: ReferenceModel | None = None,
) -> PassResult:
    """Gradients of the whole update. `current_version` is the number whose weights these are
    exactly, or None when no engine has them; `reference` is the initial model, where KL is taken
    to it. A batch without a signal makes no gradient."""
    shares = split(
        work.lines,
        tokens=layout.micro_batch_tokens,
        packed=layout.layout != "padded",
        shared=layout.layout == "shared",
        ranks=engine.shares,
        sharing=engine.settings.sequence_parallel,
    )
    seen = _Seen()
    for part in shares[engine.share]:
        started = time.monotonic()
        known = _tokens(part, reference)
        with torch.set_grad_enabled(work.has_signal):
            scores = engine.score(part, "learn" if algorithm.entropy_coefficient else "watch")
            made = share(algorithm, scores[0], scores[1], known)
        seen.forward_seconds += time.monotonic() - started
        if work.has_signal:
            started = time.monotonic()
            engine.backward(made.loss)
            seen.backward_seconds += time.monotonic() - started
        if engine.speaks:
            seen.add(part, made, scores[1], current_version)
    positions = sum(part.token_ids.numel() for parts in shares for part in parts)
    padding = sum(part.padding for parts in shares for part in parts)
    return _result(seen, work.tokens, padding / positions)


def _tokens(part: MicroBatch, reference: ReferenceModel | None) -> Tokens:
    initial = None if reference is None else reference.score(part)
    device = part.weights.device if initial is None else initial.device
    return Tokens(
        lines=part.lines.to(device),
        weights=part.weights.to(device),
        advantages=part.advantages.to(device),
        engine=part.old_logprobs.to(device),
        reference=initial,
    )


def _result(seen: _Seen, tokens: int, padding_share: float) -> PassResult:
    total, count = process_group.total, max(tokens, 1)
    log_ratio = process_group.gathered(torch.cat([torch.zeros(0), *seen.log_ratio]))
    fresh = torch.cat(seen.fresh) if seen.fresh else torch.zeros(0)
    fresh_count = total(len(fresh))
    low, high = total(seen.low) / count, total(seen.high) / count
    figures = {
        "clip_share": low + high,
        "clip_share_low": low,
        "clip_share_high": high,
        "entropy": total(seen.entropy) / count,
        "kl": total(seen.kl) / count,
        "mismatch_mean": total(float(fresh.sum())) / max(fresh_count, 1),
        # k3 of KL(engine ‖ learner) on the tokens that the engine sampled.
        "mismatch_kl": float((log_ratio.exp() - 1 - log_ratio).mean()) if len(log_ratio) else 0.0,
        "correction_dropped_share": total(seen.dropped) / count,
        "padding_share": padding_share,
    }
    for name, quantile in QUANTILES.items():
        at = np.quantile(log_ratio.numpy(), quantile) if len(log_ratio) else 0.0
        figures[f"ratio_{name}"] = math.exp(at)
    return PassResult(
        loss=total(seen.loss),
        mismatch_gap=process_group.highest(float(fresh.max()) if len(fresh) else 0.0),
        forward_seconds=seen.forward_seconds,
        backward_seconds=seen.backward_seconds,
        figures=figures,
    )
