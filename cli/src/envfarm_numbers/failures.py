"""Why a graded attempt failed: one class each, from its row and from what right attempts write.

What a task's right end writes is taken from its passed attempts, in any campaign at hand. The first
rule that fits gives the class:

forbidden write   an `untouched` check failed, or a table was written that no passed attempt writes
premature stop    a limit ended the attempt, or it ended without any tool call
reply             everything in the database is right; only the answer is not
tool trouble      nothing was written and a tool call was refused
no write          nothing was written
missing step      fewer writes than a right end has, and none more
extra write       more writes than a right end has, and none fewer
wrong record      as many writes, or unknown how many, and another content
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from envfarm.attempt_row import AttemptRow

CLASSES = (
    "wrong record",
    "missing step",
    "extra write",
    "forbidden write",
    "no write",
    "premature stop",
    "tool trouble",
    "reply",
)
ANSWER_KINDS = frozenset({"reply", "rubric"})
"""Kinds of checks that look at the answer and not at the database."""

Writes = Mapping[str, Mapping[str, int]]
Expected = dict[str, dict[tuple[str, str], int]]
"""Task id → (table, operation) → rows."""


def expected_writes(rows: Iterable[AttemptRow]) -> Expected:
    """The most frequent writes of the passed attempts of each task; of equals the fewest."""
    seen: dict[str, Counter[tuple[tuple[tuple[str, str], int], ...]]] = {}
    for row in rows:
        if row.reward == 1.0:
            key = tuple(sorted(flat(row.writes).items()))
            seen.setdefault(row.task_id, Counter())[key] += 1
    return {
        task: dict(min(ends.items(), key=lambda item: (-item[1], len(item[0]), item[0]))[0])
        for task, ends in seen.items()
    }


def failure_class(row: AttemptRow, expected: Expected) -> str:
    """One of CLASSES. ValueError for an attempt that did not fail."""
    if row.reward != 0.0:
        raise ValueError(f"{row.rollout_id} did not fail")
    made, right = flat(row.writes), expected.get(row.task_id)
    failed = {str(check.get("kind")) for check in row.checks if not check.get("passed")}
    tables = {table for table, _ in made}
    if "untouched" in failed or (right and tables - {table for table, _ in right}):
        return "forbidden write"
    if row.status.startswith("truncated") or not (row.tool_calls or made or failed <= ANSWER_KINDS):
        return "premature stop"
    if failed and failed <= ANSWER_KINDS:
        return "reply"
    if not made:
        return "tool trouble" if row.tool_errors else "no write"
    if right is None:
        return "wrong record"
    fewer = any(made.get(key, 0) < rows for key, rows in right.items())
    more = any(rows > right.get(key, 0) for key, rows in made.items())
    if fewer and not more:
        return "missing step"
    return "extra write" if more and not fewer else "wrong record"


def failure_counts(rows: Iterable[AttemptRow], expected: Expected) -> dict[str, int]:
    """Failed attempts by class, in the order of CLASSES, zeros included."""
    found = Counter(failure_class(row, expected) for row in rows if row.reward == 0.0)
    return {name: found[name] for name in CLASSES}


def excused_counts(rows: Iterable[AttemptRow]) -> list[dict[str, Any]]:
    """Attempts without reward by boundary and error class, most frequent first."""
    found = Counter(
        (row.boundary or "unknown", row.error_class or row.status)
        for row in rows
        if row.reward is None
    )
    return [
        {"boundary": boundary, "error_class": name, "attempts": number}
        for (boundary, name), number in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]


def end_state(row: AttemptRow) -> str:
    """What is left in the database: `matched expected`, `kept untouched` or `other`; `unknown` when
    the attempt was not graded."""
    if row.reward is None:
        return "unknown"
    database = [check for check in row.checks if check.get("kind") not in ANSWER_KINDS]
    if database and all(check.get("passed") for check in database):
        return "matched expected"
    return "other" if row.writes else "kept untouched"


def flat(writes: Writes) -> dict[tuple[str, str], int]:
    """(table, operation) → rows, without zeros."""
    return {
        (table, operation): rows
        for table, operations in writes.items()
        for operation, rows in operations.items()
        if rows
    }
