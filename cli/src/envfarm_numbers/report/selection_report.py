"""The report of a selection: what was probed, what was kept, and why the rest was not."""

from typing import Any

from envfarm_numbers.report import blocks
from envfarm_numbers.report.document import (
    Card,
    Cards,
    Cell,
    Document,
    Section,
    Table,
    at,
    lookup,
    pointer,
)


def selection_data(manifest: dict[str, Any], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """The JSON: a manifest with its lines of tasks.jsonl."""
    return {"manifest": manifest, "tasks": tasks}


def selection_report(data: dict[str, Any], name: str) -> Document:
    """`data` as `selection_data` made it."""
    summary = data["manifest"]["summary"]
    return Document(
        title=name,
        subtitle=f"{summary['selected']} of {summary['candidates']} tasks selected, "
        f"{summary['train']} to train and {summary['validation']} to validate",
        sections=selection_sections(data),
        data=data,
    )


def selection_sections(data: dict[str, Any], *keys: str | int) -> list[Section]:
    """The same as sections of a larger report, for `selection_data` at `keys`."""
    inner = lookup(data, pointer(*keys))
    manifest, place = inner["manifest"], (*keys, "manifest", "summary")
    summary = manifest["summary"]
    cards = Cards(
        [
            Card("selected", at(data, *place, "selected", how="count")),
            Card(
                "informative groups expected",
                at(data, *place, "expected_informative_groups", how="percent"),
                note=f"groups of {summary['group_size']} with both rewards, mean over the training "
                "tasks under their posteriors",
            ),
            Card(
                "attempts per informative group",
                at(data, *place, "attempts_per_informative_group"),
            ),
            Card("clean runs probed", at(data, *place, "clean_runs", how="count")),
        ]
    )
    kept = manifest["settings"]["bands"]
    bands: list[list[Cell]] = [
        [
            band.replace("_", " ") + (" (retained)" if band in kept else ""),
            at(data, *place, "bands", band, "candidates", how="count"),
            at(data, *place, "bands", band, "selected", how="count"),
        ]
        for band in summary["bands"]
    ]
    reasons: list[list[Cell]] = [
        [reason, at(data, *place, "reasons", reason, how="count")] for reason in summary["reasons"]
    ]
    rejected: list[list[Cell]] = [
        [task["task_id"], "; ".join(task["reasons"])] for task in inner["tasks"] if task["reasons"]
    ]
    return [
        Section(
            "selection",
            "Selection",
            [
                cards,
                blocks.difficulty(data, kept, *keys, "tasks"),
                Table(["band", "candidates", "selected"], bands),
            ],
        ),
        Section("certainty", "Certainty", [blocks.posteriors(data, *keys, "tasks")]),
        Section(
            "rejected",
            "Rejected tasks",
            [
                Table(["reason", "tasks"], reasons, "A task may have several"),
                Table(["task", "reasons"], rejected),
            ],
        ),
    ]
