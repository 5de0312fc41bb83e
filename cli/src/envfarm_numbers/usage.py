"""Tokens, turns, tool calls and seconds of attempts, by how they ended."""

from collections.abc import Iterable
from typing import Any

import polars as pl
from envfarm.attempt_row import AttemptRow

MEASURES = (
    "prompt_tokens",
    "sampled_tokens",
    "user_tokens",
    "judge_tokens",
    "turns",
    "tool_calls",
    "tool_errors",
    "seconds",
    "tool_seconds",
)
OUTCOMES = ("passed", "failed", "without reward")


def usage(rows: Iterable[AttemptRow]) -> list[dict[str, Any]]:
    """One record for all attempts and one for each outcome that occurs: attempts, and for each
    measure its sum, mean, median, 90th percentile and maximum."""
    frame = _frame(rows)
    parts = [("all", frame)] + [
        (outcome, frame.filter(pl.col("outcome") == outcome)) for outcome in OUTCOMES
    ]
    return [
        {"outcome": name, "attempts": part.height, "measures": _measures(part)}
        for name, part in parts
        if part.height
    ]


def statuses(rows: Iterable[AttemptRow]) -> dict[str, int]:
    """Attempts by status, most frequent first."""
    found = _frame(rows).group_by("status").len().sort(["len", "status"], descending=[True, False])
    return dict(zip(found["status"], found["len"], strict=True))


def _frame(rows: Iterable[AttemptRow]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "status": row.status,
                "outcome": OUTCOMES[2 if row.reward is None else int(row.reward == 0.0)],
                **{name: float(getattr(row, name)) for name in MEASURES},
            }
            for row in rows
        ],
        schema={"status": pl.String, "outcome": pl.String, **dict.fromkeys(MEASURES, pl.Float64)},
    )


def _measures(part: pl.DataFrame) -> dict[str, dict[str, float]]:
    statistics = {
        "sum": pl.all().sum(),
        "mean": pl.all().mean(),
        "median": pl.all().median(),
        "p90": pl.all().quantile(0.9, "linear"),
        "max": pl.all().max(),
    }
    values = part.select(MEASURES)
    found = {name: values.select(how).row(0, named=True) for name, how in statistics.items()}
    return {
        measure: {name: round(float(line[measure]), 6) for name, line in found.items()}
        for measure in MEASURES
    }
