"""report.md and report.html of the demonstration, from its summary and curves alone."""

from pathlib import Path
from typing import Any


def render_markdown(summary: dict[str, Any], curves: list[dict[str, Any]]) -> str:
    """For terminals and repositories."""
    before, after, pair = summary["before"], summary["after"], summary["paired"]
    lines = [f"# envfarm demo, seed {summary['seed']}", ""]
    lines += ["| figure | before | after | difference |", "|---|---|---|---|"]
    for a, b, d in zip(before["estimates"], after["estimates"], pair["differences"], strict=True):
        lines.append(
            f"| {a['name']} | {_shown(a)} | {_shown(b)} | {d['value']:+.3f}"
            f"{_ends(d['low'], d['high'])} |"
        )
    return "\n".join(lines) + "\n"


def render_html(summary: dict[str, Any], curves: list[dict[str, Any]], folder: Path) -> str:
    """Self-contained."""
    raise NotImplementedError


def _shown(estimate: dict[str, Any]) -> str:
    return f"{estimate['value']:.3f}{_ends(estimate['low'], estimate['high'])}"


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
