"""The report of two campaigns side by side."""

from typing import Any

from envfarm_numbers.comparison import Comparison
from envfarm_numbers.report import blocks
from envfarm_numbers.report.document import (
    Block,
    Cell,
    Details,
    Document,
    Notice,
    Section,
    Table,
    Text,
    at,
)

SERIES = (("b", "a"), ("a", "b"))
"""(class of the marks, key): what was before is grey."""


def comparison_report(comparison: Comparison) -> Document:
    """B minus A, figure by figure."""
    data = comparison.to_dict()
    names = {key: f"{key.upper()}: {data[key]['name']}" for key in "ab"}

    def series(*keys: str) -> list[tuple[str, str, tuple[str | int, ...]]]:
        return [(kind, names[key], (key, *keys)) for kind, key in SERIES]

    difference = comparison.paired.differences[0]
    sections = [
        Section(
            "differences",
            "Differences",
            [blocks.differences(data, "paired"), Text(_said(difference.low, difference.high))],
        ),
        Section(
            "curves",
            "Coverage and repeatability",
            [
                blocks.curves_over_attempts(data, series("results")),
                Details(names["a"], [blocks.headline(data, "a", "results")]),
                Details(names["b"], [blocks.headline(data, "b", "results")]),
            ],
            "A policy may pass more often and yet solve fewer tasks; both are shown.",
        ),
        Section("tasks", "Tasks", _tasks(data, comparison)),
        Section("parts", "Domains and workflows", _parts(data)),
        Section("failures", "Failures", [blocks.failures(data, series("failures"))]),
    ]
    if data["a"]["cost"] and data["b"]["cost"]:
        cost: list[Block] = [
            blocks.cost_dependability(data, series()),
            *(Details(names[key], blocks.cost(data, key, "cost")) for key in "ab"),
        ]
        sections.append(Section("cost", "Cost", cost))
    sections.append(
        Section(
            "usage",
            "Tokens, turns, tools",
            [Details(names[key], [blocks.usage_table(data, key, "usage")]) for key in "ab"],
        )
    )
    return Document(
        title=f"{data['b']['name']} against {data['a']['name']}",
        subtitle=f"{comparison.paired.tasks} tasks paired, k = {comparison.paired.repetitions}; every "
        "difference is B − A",
        sections=sections,
        data=data,
        notices=[Notice(warning) for warning in comparison.warnings],
    )


def _said(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "Too few tasks for an interval: read the tasks, not the average."
    if low > 0:
        return "pass@1 rose: the whole interval of its difference is above zero."
    if high < 0:
        return "pass@1 fell: the whole interval of its difference is below zero."
    return "Whether pass@1 changed is open: the interval of its difference holds zero."


def _tasks(data: dict[str, Any], comparison: Comparison) -> list[Block]:
    paired = comparison.paired
    rows: list[list[Cell]] = [
        [what, str(len(tasks)), ", ".join(tasks[:8]) + (" …" if len(tasks) > 8 else "")]
        for what, tasks in (
            ("now pass every time", paired.gained_all),
            ("no longer pass every time", paired.lost_all),
            ("pass for the first time", paired.gained_ever),
            ("never pass any more", paired.lost_ever),
        )
    ]
    return [
        Table(["in B", "tasks", "which"], rows, "Tasks gained and lost"),
        blocks.scatter(data, "tasks"),
    ]


def _parts(data: dict[str, Any]) -> list[Block]:
    found: list[Block] = []
    for key in ("domains", "workflows"):
        rows: list[list[Cell]] = []
        for name in data[key]:
            place = (key, name, "differences", 0)
            rows.append(
                [
                    name,
                    at(data, key, name, "tasks", how="count"),
                    *(at(data, *place, side, how="percent") for side in "ab"),
                    *(at(data, *place, end, how="points") for end in ("value", "low", "high")),
                ]
            )
        if rows:
            found.append(
                Table(
                    [key[:-1], "tasks", "A", "B", "B − A, points", "low", "high"],
                    rows,
                    f"pass@1 by {key[:-1]}; parts of fewer than 10 tasks have no interval",
                )
            )
    return found
