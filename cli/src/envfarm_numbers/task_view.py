"""All attempts of one task in two campaigns, side by side, with what each left in the database.

Each attempt says whether the database was kept untouched, matched the expected end, or neither. Its
row diff, its checks and its conversation come from the records of the gateway, found by rollout id.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.errors import ConfigError

from envfarm_numbers.failures import end_state, expected_writes, failure_class
from envfarm_numbers.rows import Campaign

CONVERSATIONS = "conversations.jsonl"


@dataclass(slots=True)
class ViewedAttempt:
    """One attempt of the task."""

    row: AttemptRow
    end: str
    """matched expected, kept untouched, other, or unknown."""
    failure: str
    """Its failure class; empty unless it failed."""
    record: dict[str, Any] | None
    """The conversation with its verdict, where a record was found."""

    @property
    def diff(self) -> list[str]:
        """Row changes as lines, from the verdict."""
        verdict = (self.record or {}).get("verdict") or {}
        return [change_line(change) for change in verdict.get("diff") or []]

    def to_dict(self) -> dict[str, Any]:
        row = self.row
        return {
            "rollout_id": row.rollout_id,
            "repetition": row.repetition,
            "attempt": row.attempt,
            "status": row.status,
            "reward": row.reward,
            "end": self.end,
            "failure": self.failure,
            "writes": row.writes,
            "failed_checks": [check.get("name") for check in row.checks if not check.get("passed")],
            "final_state_hash": row.final_state_hash,
            "diff": self.diff,
            "has_conversation": self.record is not None,
        }


def view_task(
    task_id: str, campaigns: Iterable[Campaign], records: Mapping[str, dict[str, Any]]
) -> list[list[ViewedAttempt]]:
    """For each campaign the attempts of the task, by repetition; ConfigError when none has it."""
    sides = [
        sorted(
            (row for row in campaign.rows if row.task_id == task_id),
            key=lambda row: (row.repetition, row.attempt),
        )
        for campaign in campaigns
    ]
    rows = [row for side in sides for row in side]
    if not rows:
        raise ConfigError(f"neither campaign has an attempt of {task_id}")
    expected = expected_writes(rows)
    return [
        [
            ViewedAttempt(
                row,
                end_state(row),
                failure_class(row, expected) if row.reward == 0.0 else "",
                records.get(row.rollout_id),
            )
            for row in side
        ]
        for side in sides
    ]


def read_records(folders: Iterable[Path], task_id: str) -> dict[str, dict[str, Any]]:
    """Conversations of the task by rollout id, from all conversations.jsonl below the folders.

    ConfigError names the line that is no record.
    """
    found: dict[str, dict[str, Any]] = {}
    needle = json.dumps(task_id, ensure_ascii=False).encode()
    for path in sorted({path for folder in folders for path in folder.rglob(CONVERSATIONS)}):
        for number, line in _whole_lines(path):
            if needle not in line:
                continue
            try:
                record = json.loads(line)
                if record["task_id"] == task_id:
                    found[record["rollout_id"]] = record
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{path}:{number}: not a recorded attempt: {error}") from error
    return found


def change_line(change: Mapping[str, Any]) -> str:
    """`orders O-1012: status placed → cancelled` for one row change of a verdict."""
    before, after = change.get("before") or {}, change.get("after") or {}
    columns = [
        f"{name} {_value(before.get(name))} → {_value(after.get(name))}"
        if before and after
        else f"{name} {_value((after or before).get(name))}"
        for name in (after or before)
        if before.get(name) != after.get(name)
    ]
    key = ", ".join(map(_value, (change.get("key") or {}).values()))
    return f"{change.get('op', '?')} {change.get('table', '?')} {key}: {', '.join(columns)}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as source:
        for number, line in enumerate(source, 1):
            if line.endswith(b"\n"):
                yield number, line
