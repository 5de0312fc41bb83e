"""One update in numbers: the line of steps.jsonl, and the line that a terminal shows."""

import resource
import statistics
import sys
from typing import Any

import torch

from learner.batch import Batch
from learner.group import TakenGroup
from learner.update import PassResult


def record(
    *,
    update: int,
    version: int,
    epoch: int,
    taken: list[TakenGroup],
    batch: Batch,
    result: PassResult,
    grad_norm: float,
    rate: float,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """`version` is the learner's before the step, `rate` its learning rate, 0 where the optimizer
    did not move; `seconds` by phase, publish and checkpoint being
    those since the line before."""
    staleness = [version - group.oldest_version() for group in taken]
    return {
        "update": update,
        "version": version,
        "epoch": epoch,
        "groups": [group.group_id for group in taken],
        "stepped": batch.has_signal,
        "tokens": batch.tokens,
        "masked_tokens": batch.masked_tokens,
        "prompt_tokens": batch.prompt_tokens,
        "trained_rollouts": sum(bool(one.sampled.any()) for one in batch.lines),
        "loss": result.loss,
        "reward_mean": statistics.fmean(batch.rewards),
        "zero_variance_share": batch.zero_variance_groups / batch.groups,
        "advantage_spread": batch.advantage_spread,
        "staleness_mean": statistics.fmean(staleness),
        "staleness_max": max(staleness),
        "mismatch_gap": result.mismatch_gap,
        "grad_norm": grad_norm,
        "lr": rate,
        "memory_bytes": memory_bytes(),
        "seconds": {name: round(value, 4) for name, value in sorted(seconds.items())},
        **result.figures,
    }


def shown(line: dict[str, Any], updates: int) -> str:
    """The same for a terminal, in one line."""
    seconds = line["seconds"]
    busy = sum(value for name, value in seconds.items() if name != "wait")
    tokens = line["tokens"] + line["masked_tokens"] + line["prompt_tokens"]
    return (
        f"update {line['update']}/{updates}  reward {line['reward_mean']:.3f}  "
        f"equal {line['zero_variance_share']:.0%}  loss {line['loss']:+.4f}  "
        f"norm {line['grad_norm']:.2f}  entropy {line['entropy']:.2f}  "
        f"clipped {line['clip_share']:.1%}  gap {line['mismatch_gap']:.1e}  "
        f"stale {line['staleness_mean']:.1f}  {tokens / max(busy, 1e-9):,.0f} tokens/s  "
        f"waited {seconds.get('wait', 0.0):.1f} s, worked {busy:.1f} s"
    )


def memory_bytes() -> int:
    """The most that this process has held so far: on the accelerator, else in main memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
