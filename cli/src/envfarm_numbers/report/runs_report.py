"""The report of several campaigns together: evaluations before and after, the probe, the training.

Figures of one measure share a drawing. What was spent on probing and on training has lines of its own
and enters no price of an evaluation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from envfarm.errors import ConfigError

from envfarm_numbers.comparison import compare_campaigns
from envfarm_numbers.ledger import spending, training_cost
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.report import blocks
from envfarm_numbers.report.campaign_report import bounds_table, notices
from envfarm_numbers.report.document import (
    Block,
    Cell,
    Details,
    Document,
    Figure,
    Notice,
    Section,
    Table,
    Text,
    at,
)
from envfarm_numbers.report.training_report import training_sections
from envfarm_numbers.rows import Campaign

KINDS = "bacd"
"""Classes of the marks, in the order of the campaigns: what was first is grey."""
MOST = len(KINDS)
Steps = list[dict[str, Any]]
Series = list[tuple[str, str, tuple[str | int, ...]]]


def runs_data(
    evaluated: Sequence[tuple[dict[str, Any], Campaign]],
    *,
    training: Mapping[str, Steps] | None = None,
    probes: Mapping[str, Campaign] | None = None,
    sheet: PriceSheet | None = None,
) -> dict[str, Any]:
    """`evaluated`: the data of each evaluation as `campaign_data` made it, with its rows, earliest
    first. ConfigError when there are more than can be told apart in a drawing."""
    if len(evaluated) > MOST:
        raise ConfigError(
            f"{len(evaluated)} evaluations cannot be told apart in one drawing, {MOST} can",
            hint="report fewer together",
        )
    return {
        "campaigns": [data for data, _ in evaluated],
        **_before_after(evaluated),
        "training": [
            {"name": name, "steps": steps, "busy_seconds": _busy(steps)}
            for name, steps in (training or {}).items()
        ],
        "other_costs": _other_costs(training or {}, probes or {}, sheet),
    }


def runs_report(data: dict[str, Any], name: str) -> Document:
    """`data` as `runs_data` made it."""
    campaigns = data["campaigns"]
    whole = [i for i, one in enumerate(campaigns) if one["results"]]
    sections = [_headlines(data, whole)] if campaigns else []
    if whole:
        sections.append(_curves(data, whole))
    if data["before_after"]:
        sections.append(_moved(data))
    sections += [_difficulty(data, i) for i in range(len(campaigns))]
    if whole:
        sections.append(_failures(data, whole))
    if data["other_costs"] or any(campaigns[i]["cost"] for i in whole):
        sections.append(_costs(data, whole))
    for i, run in enumerate(data["training"]):
        (section,) = training_sections(data, "training", i, "steps")
        sections.append(replace(section, id=f"training-{i}", title=f"Training {run['name']}"))
    return Document(
        title=name,
        subtitle=f"{len(campaigns)} evaluations, {len(data['training'])} training runs",
        sections=_with_ids_of_their_own(sections),
        data=data,
        notices=_notices(data),
    )


def _before_after(evaluated: Sequence[tuple[dict[str, Any], Campaign]]) -> dict[str, Any]:
    """The first and the last evaluation, task by task; or why they are not paired."""
    whole = [(data["name"], rows) for data, rows in evaluated if data["results"]]
    if len(whole) < 2:
        return {"before_after": None, "not_paired": ""}
    (first, before), (last, after) = whole[0], whole[-1]
    try:
        found = compare_campaigns(before, after, names=(first, last)).to_dict()
    except ConfigError as error:
        return {"before_after": None, "not_paired": error.message}
    kept = {key: found[key] for key in ("paired", "tasks", "warnings")}
    return {"before_after": {"names": [first, last], **kept}, "not_paired": ""}


def _busy(steps: Steps) -> float:
    """Seconds in which the learner worked, waiting left out."""
    phases = [step.get("seconds") for step in steps]
    return sum(
        value
        for one in phases
        if isinstance(one, dict)
        for name, value in one.items()
        if name != "wait"
    )


def _other_costs(
    training: Mapping[str, Steps], probes: Mapping[str, Campaign], sheet: PriceSheet | None
) -> list[dict[str, Any]]:
    if sheet is None:
        return []
    found = [
        {"what": f"probing {name}", "cost": spending(campaign.rows, sheet).cost}
        for name, campaign in probes.items()
    ]
    return found + [
        {"what": f"training machine, {name}", "cost": training_cost(_busy(steps), sheet).cost}
        for name, steps in training.items()
    ]


def _notices(data: dict[str, Any]) -> list[Notice]:
    found = [
        Notice(f"{one['name']}: {notice.text}", notice.kind)
        for one in data["campaigns"]
        for notice in notices(one)
    ]
    if data["not_paired"]:
        found.append(Notice(f"First and last evaluation are not paired: {data['not_paired']}"))
    if data["before_after"]:
        found += [Notice(warning) for warning in data["before_after"]["warnings"]]
    return found


def _series(data: dict[str, Any], whole: Sequence[int], *keys: str) -> Series:
    return [(KINDS[i], data["campaigns"][i]["name"], ("campaigns", i, *keys)) for i in whole]


def _headlines(data: dict[str, Any], whole: Sequence[int]) -> Section:
    rows: list[list[Cell]] = []
    for i in whole:
        results = data["campaigns"][i]["results"]
        for name in blocks.HEADLINE:
            place = ("campaigns", i, "results", name)
            shares = [at(data, *place, part, how="percent") for part in ("value", "low", "high")]
            rows.append([results[name]["name"], data["campaigns"][i]["name"], *shares])
    order = [rows[n :: len(blocks.HEADLINE)] for n in range(len(blocks.HEADLINE))]
    found: list[Block] = []
    if rows:
        columns = ["figure", "campaign", "value", "low", "high"]
        found.append(Table(columns, [row for part in order for row in part]))
        found += [
            Details(
                data["campaigns"][i]["name"], [blocks.headline(data, "campaigns", i, "results")]
            )
            for i in whole
        ]
    for i, one in enumerate(data["campaigns"]):
        if not one["results"]:
            found.append(Details(f"{one['name']}: bounds", [bounds_table(data, "campaigns", i)]))
    return Section("headline", "Headlines", found)


def _curves(data: dict[str, Any], whole: Sequence[int]) -> Section:
    found: list[Block] = [blocks.curves_over_attempts(data, _series(data, whole, "results"))]
    for key in ("domains", "workflows"):
        if any(data["campaigns"][i][key] for i in whole):
            series = _series(data, whole, key)
            found.append(blocks.parts(data, series, id=key, title=f"pass@1 by {key[:-1]}"))
    return Section("curves", "Repeatability, domains, workflows", found)


def _moved(data: dict[str, Any]) -> Section:
    first, last = data["before_after"]["names"]
    return Section(
        "moved",
        "Before and after",
        [
            blocks.differences(data, "before_after", "paired", names=("before", "after")),
            blocks.scatter(data, "before_after", "tasks", names=("before", "after")),
        ],
        f"Before is {first}, after is {last}; every difference is task by task.",
    )


def _difficulty(data: dict[str, Any], i: int) -> Section:
    place = ("campaigns", i, "tasks")
    drawn = [blocks.difficulty(data, (), *place), blocks.posteriors(data, *place)]
    return Section(f"tasks-{i}", f"Tasks of {data['campaigns'][i]['name']}", drawn)


def _failures(data: dict[str, Any], whole: Sequence[int]) -> Section:
    return Section(
        "failures", "Failures", [blocks.failures(data, _series(data, whole, "failures"))]
    )


def _costs(data: dict[str, Any], whole: Sequence[int]) -> Section:
    priced = [i for i in whole if data["campaigns"][i]["cost"]]
    found: list[Block] = []
    if priced:
        found.append(blocks.cost_dependability(data, _series(data, priced)))
        found += [
            Details(data["campaigns"][i]["name"], blocks.cost(data, "campaigns", i, "cost"))
            for i in priced
        ]
    if data["other_costs"]:
        rows: list[list[Cell]] = [
            [one["what"], at(data, "other_costs", i, "cost", how="money")]
            for i, one in enumerate(data["other_costs"])
        ]
        found += [
            Table(["apart from the evaluations", "cost"], rows, "Probing and training"),
            Text("These are in no price of an attempt, a success or a dependable task."),
        ]
    return Section("cost", "Cost", found)


def _with_ids_of_their_own(sections: list[Section]) -> list[Section]:
    """A page names each figure once; parts that come again are numbered by their section."""
    found = []
    for section in sections:
        number = section.id.partition("-")[2]
        drawn = [
            replace(block, id=f"{block.id}-{number}")
            if number and isinstance(block, Figure)
            else block
            for block in section.blocks
        ]
        found.append(replace(section, blocks=drawn))
    return found
