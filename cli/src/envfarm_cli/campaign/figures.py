"""From attempt rows to the figures of a report, through envfarm_numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow

from envfarm_numbers.counts import CampaignCounts, read_counts
from envfarm_numbers.estimators import Estimate, Results, results


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation: its counts and its headline."""

    counts: CampaignCounts
    results: Results

    @classmethod
    def read(cls, path: Path) -> "Evaluated":
        """From an attempts.jsonl."""
        counts = read_counts(path)
        return cls(counts, results(list(counts.tasks.values())))


def plain_results(found: Results, attempts: int) -> dict[str, Any]:
    """Short keys for programs, and beside them every estimate whole."""
    return {
        "pass_at_1": found.pass_at_1.value,
        "pass_at_k": found.pass_at_k.value,
        "pass_hat_k": found.pass_hat_k.value,
        "observed_k": found.observed_all.value,
        "ever_passed": found.ever_passed.value,
        "k": found.repetitions,
        "tasks": found.tasks,
        "attempts": attempts,
        "estimates": [estimate.to_dict() for estimate in found.headline()],
    }


def line(estimate: Estimate) -> str:
    """`pass@1 0.553 [0.501, 0.604]`."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.name} {estimate.value:.3f}"
    return f"{estimate.name} {estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def tokens(rows: Sequence[AttemptRow]) -> dict[str, int]:
    """What the attempts consumed, those without reward included."""
    return {
        "attempts": len(rows),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "sampled_tokens": sum(row.sampled_tokens for row in rows),
        "user_tokens": sum(row.user_tokens for row in rows),
        "judge_tokens": sum(row.judge_tokens for row in rows),
        "wasted_attempts": sum(row.reward is None for row in rows),
    }
