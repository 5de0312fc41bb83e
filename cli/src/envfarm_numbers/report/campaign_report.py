"""The report of one campaign."""

from typing import Any

from envfarm_numbers.report import blocks
from envfarm_numbers.report.document import (
    Block,
    Details,
    Document,
    Notice,
    Section,
    Table,
    Text,
    at,
    lookup,
    pointer,
)


def campaign_report(data: dict[str, Any]) -> Document:
    """`data` as `campaign_data` made it."""
    covered = data["coverage"]
    sections = [_headline(data)]
    if data["results"]:
        sections.append(_parts(data))
    sections += [_tasks(data), _attempts(data)]
    if data["cost"]:
        figures: list[Block] = blocks.cost(data, "cost")
        sections.append(Section("cost", "Cost", figures))
    sections.append(_provenance(data))
    return Document(
        title=f"{data['name']}",
        subtitle=f"{covered['tasks']} tasks × {covered['repetitions']} repetitions, "
        f"{covered['covered']:,} of {covered['planned']:,} attempts have a reward",
        sections=sections,
        data=data,
        notices=notices(data),
    )


def notices(data: dict[str, Any]) -> list[Notice]:
    """What must be said before any figure of this campaign."""
    covered, found = data["coverage"], []
    if data["suite"] and data["suite"]["biased"]:
        found.append(
            Notice(
                "Biased suite: its tasks were selected by looking at results; do not compare it "
                "with others."
            )
        )
    if not covered["complete"]:
        found.append(
            Notice(
                f"No headline: {len(covered['missing']):,} of {covered['planned']:,} planned "
                f"attempts have no reward, {len(covered['unplanned'])} were not planned, "
                f"{len(covered['changed'])} tasks have other content. The bounds below say what the "
                "missing attempts could change."
            )
        )
    if data["unfinished_lines"]:
        found.append(Notice(f"{data['unfinished_lines']} row was still being written.", "note"))
    return found


def bounds_table(data: dict[str, Any], *keys: str | int) -> Table:
    """Both ways of filling in missing attempts, for `campaign_data` at `keys`."""
    found = lookup(data, pointer(*keys, "bounds"))
    return Table(
        ["figure", "if all missing failed", "if all missing passed"],
        [
            [
                bound["name"],
                at(data, *keys, "bounds", i, "if_failed", how="percent"),
                at(data, *keys, "bounds", i, "if_passed", how="percent"),
            ]
            for i, bound in enumerate(found)
        ],
        "The finished campaign lies between",
    )


def _headline(data: dict[str, Any]) -> Section:
    if not data["results"]:
        return Section("headline", "Bounds", [bounds_table(data)])
    found: list[Block] = [
        blocks.headline(data, "results"),
        blocks.curves_over_attempts(data, [("a", data["name"], ("results",))]),
    ]
    return Section(
        "headline",
        "Headline",
        found,
        "Attempts without reward were run again and count nowhere; every planned attempt has one.",
    )


def _parts(data: dict[str, Any]) -> Section:
    return Section(
        "parts",
        "Domains and workflows",
        [
            blocks.parts(data, [("a", data["name"], (key,))], id=key, title=f"pass@1 by {key[:-1]}")
            for key in ("domains", "workflows")
            if data[key]
        ],
    )


def _tasks(data: dict[str, Any]) -> Section:
    return Section(
        "tasks",
        "Tasks",
        [blocks.difficulty(data, (), "tasks"), blocks.posteriors(data, "tasks")],
    )


def _attempts(data: dict[str, Any]) -> Section:
    found: list[Block] = []
    if sum(data["failures"].values()):
        found.append(blocks.failures(data, [("d", "failed attempts", ("failures",))]))
    found.append(
        Table(
            ["status", "attempts"],
            [[name, at(data, "statuses", name, how="count")] for name in data["statuses"]],
            "How attempts ended",
        )
    )
    if data["excused"]:
        found.append(
            Table(
                ["without reward: boundary", "error", "attempts"],
                [
                    [
                        one["boundary"],
                        one["error_class"],
                        at(data, "excused", i, "attempts", how="count"),
                    ]
                    for i, one in enumerate(data["excused"])
                ],
                "Ours, not the policy's: run again, never failures",
            )
        )
    found.append(Details("Tokens, turns, tool calls, seconds", [blocks.usage_table(data, "usage")]))
    return Section("attempts", "Attempts", found)


def _provenance(data: dict[str, Any]) -> Section:
    suite = data["suite"]
    rows: list[list[Any]] = [
        [name.replace("_", " "), ", ".join(values) or "–"]
        for name, values in data["identity"].items()
    ]
    rows.append(
        ["suite", f"{suite['name']}, {suite['hash']}" if suite else "none: the tasks of the rows"]
    )
    return Section(
        "provenance",
        "Provenance",
        [Table(["what", "value"], rows), Text("Two reports compare only where these are equal.")],
    )
