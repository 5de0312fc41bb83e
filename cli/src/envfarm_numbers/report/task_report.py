"""One task in two campaigns: every attempt with its end, its row diff and its conversation."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from envfarm_numbers.report.document import (
    Block,
    Cell,
    Details,
    Document,
    Lines,
    Section,
    Table,
    Text,
)
from envfarm_numbers.task_view import ViewedAttempt

_LABELS = {"system": ("dim", "system"), "user": ("user", "user"), "assistant": ("agent", "agent")}


def task_report(
    task_id: str, names: Sequence[str], sides: Sequence[Sequence[ViewedAttempt]]
) -> Document:
    """`sides` as `view_task` gave them, with the name of each."""
    data: dict[str, Any] = {
        "task_id": task_id,
        "campaigns": [
            {"name": name, "attempts": [attempt.to_dict() for attempt in side]}
            for name, side in zip(names, sides, strict=True)
        ],
    }
    ends = ("matched expected", "kept untouched", "other", "unknown")
    counts = [Counter(attempt.end for attempt in side) for side in sides]
    rows: list[list[Cell]] = [[end, *(str(count[end]) for count in counts)] for end in ends]
    passed = [sum(attempt.row.reward == 1.0 for attempt in side) for side in sides]
    rows.append(["passed", *map(str, passed)])
    sections = [
        Section("ends", "How the database was left", [Table(["end", *names], rows)]),
        *(
            Section(f"side-{'ab'[i]}", name, [_attempt(attempt) for attempt in side])
            for i, (name, side) in enumerate(zip(names, sides, strict=True))
        ),
    ]
    return Document(
        title=task_id,
        subtitle="Every attempt of one task: " + " and ".join(names),
        sections=sections,
        data=data,
    )


def _attempt(attempt: ViewedAttempt) -> Details:
    row = attempt.row
    result = "no reward" if row.reward is None else "passed" if row.reward else "failed"
    said = f"repetition {row.repetition}: {result}, {attempt.end}"
    if attempt.failure:
        said += f", {attempt.failure}"
    blocks: list[Block] = []
    if attempt.diff:
        blocks.append(Lines([("", "row", line) for line in attempt.diff]))
    elif row.reward is not None:
        written = json.dumps(row.writes) if row.writes else "nothing"
        blocks.append(Text(f"Written: {written}"))
    if row.message:
        blocks.append(Text(f"{row.error_class} at {row.boundary}: {row.message}"))
    if attempt.record is None:
        blocks.append(Text(f"Its conversation is not among the records: {row.rollout_id}"))
    else:
        blocks.append(Lines(_checks(attempt.record)))
        blocks.append(Lines(_conversation(attempt.record)))
    return Details(said, blocks, id=row.rollout_id)


def _checks(record: dict[str, Any]) -> list[tuple[str, str, str]]:
    verdict = record.get("verdict") or {}
    return [
        ("good", "passed", check["name"])
        if check["passed"]
        else (
            "bad",
            "failed",
            f"{check['name']}: expected {check['expected']}, observed {check['observed']}",
        )
        for check in verdict.get("checks") or []
    ]


def _conversation(record: dict[str, Any]) -> list[tuple[str, str, str]]:
    lines: list[tuple[str, str, str]] = []
    for turn in record.get("turns") or []:
        if turn["kind"] == "tool":
            # Its text repeats what stands beside the calls.
            continue
        kind, label = _LABELS.get(turn["kind"], ("dim", turn["kind"]))
        if turn.get("reasoning"):
            lines.append(("dim", "thinks", turn["reasoning"]))
        if turn["text"]:
            lines.append((kind, label, turn["text"]))
        for call in turn.get("calls", ()):
            lines.append(("agent", "calls", f"{call['name']}({call['arguments']})"))
            answer = ("bad", "refused") if call["is_error"] else ("dim", "answer")
            lines.append((answer[0], answer[1], call["content"]))
    return lines
