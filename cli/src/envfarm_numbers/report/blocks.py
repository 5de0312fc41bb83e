"""Building blocks of reports: each reads the report's JSON at a key path and gives blocks for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from envfarm_numbers.report import plots
from envfarm_numbers.report.document import (
    Block,
    Card,
    Cards,
    Cell,
    Figure,
    Format,
    Table,
    Text,
    at,
    lookup,
    pointer,
)

Keys = tuple[str | int, ...]
Series = Sequence[tuple[str, str, Keys]]
"""(class of the marks, label, key path)."""
HEADLINE = ("pass_at_1", "pass_at_k", "pass_hat_k", "observed_all", "ever_passed")
WHAT = {
    "pass_at_1": "an attempt passes",
    "pass_at_k": "coverage: one of k attempts passes",
    "pass_hat_k": "repeatability: all of k attempts pass",
    "observed_all": "dependable: every attempt passed",
    "ever_passed": "at least one attempt passed",
}


def headline(data: Any, *keys: str | int) -> Cards:
    """Cards of the five headline figures of a Results at `keys`."""
    return Cards([_estimate_card(data, (*keys, name), WHAT[name]) for name in HEADLINE])


def headline_table(data: Any, series: Series) -> Table:
    """The five headline figures of each Results at its key path, with their intervals."""
    rows: list[list[Cell]] = []
    for name in HEADLINE:
        places = [(*keys, name) for _, _, keys in series]
        shown = [
            at(data, *place, part, how="percent")
            for place in places
            for part in ("value", "low", "high")
        ]
        rows.append([lookup(data, pointer(*places[0]))["name"], *shown])
    columns = [f"{label} {part}".strip() for _, label, _ in series for part in ("", "low", "high")]
    return Table(["figure", *columns], rows, "Each with its 95 % interval")


def _estimate_card(data: Any, keys: Keys, what: str) -> Card:
    estimate = lookup(data, pointer(*keys))
    known = estimate["low"] is not None
    return Card(
        label=estimate["name"],
        what=what,
        number=at(data, *keys, "value", how="percent"),
        low=at(data, *keys, "low", how="percent") if known else None,
        high=at(data, *keys, "high", how="percent") if known else None,
        fraction=(
            at(data, *keys, "numerator", how="count"),
            at(data, *keys, "denominator", how="count"),
            estimate["unit"],
        ),
        note=f"{estimate['estimator']}. {estimate['interval']}",
    )


def curves_over_attempts(data: Any, series: Series, *, id: str = "repeatability") -> Figure:
    """pass^j of each Results at its key path; with a single one pass@j stands beside it."""

    def paths(keys: Keys, name: str) -> list[Keys]:
        return [(*keys, name, i) for i in range(len(lookup(data, pointer(*keys, name))))]

    alone = len(series) == 1
    drawn = [
        (kind, "repeatability" if alone else label, paths(keys, "repeatability"))
        for kind, label, keys in series
    ]
    if alone:
        drawn.append(("c", "coverage", paths(series[0][2], "coverage")))
    shapes = []
    for kind, label, places in drawn:
        points = [lookup(data, pointer(*place)) for place in places]
        curve = [(j, p["value"], p["low"], p["high"]) for j, p in enumerate(points, 1)]
        shapes.append((kind, f"{label}, j = ", curve))
    rows = [
        [str(j + 1)]
        + [
            cell
            for _, _, places in drawn
            for cell in (
                [at(data, *places[j], part, how="percent") for part in ("value", "low", "high")]
                if j < len(places)
                else ["–"] * 3
            )
        ]
        for j in range(max(len(places) for _, _, places in drawn))
    ]
    columns = [f"{label} {part}".strip() for _, label, _ in drawn for part in ("", "low", "high")]
    return Figure(
        id=id,
        title="Coverage and repeatability" if alone else "Repeatability",
        caption="Share of tasks that pass all of j attempts (repeatability, pass^j)"
        + (" and at least one of j (coverage, pass@j)" if alone else "")
        + "; unbiased, ribbons are 95 % task-clustered intervals.",
        draw=lambda width: plots.repeatability(shapes, width),
        table=Table(["j", *columns], rows),
        legend=[(f"mark {kind}", label) for kind, label, _ in drawn],
    )


def parts(data: Any, series: Series, *, id: str, title: str) -> Figure:
    """pass@1 of each part (domain, workflow): `series` name dicts of Results by part."""
    names = sorted({name for _, _, keys in series for name in lookup(data, pointer(*keys))})
    rows, shapes = [], []
    for name in names:
        bars = []
        for kind, label, keys in series:
            found = lookup(data, pointer(*keys)).get(name)
            if found is None:
                continue
            one = found["pass_at_1"]
            bars.append((kind, (label, one["value"], one["low"], one["high"])))
            place = (*keys, name, "pass_at_1")
            rows.append(
                [name, label, at(data, *keys, name, "tasks", how="count")]
                + [at(data, *place, part, how="percent") for part in ("value", "low", "high")]
            )
        shapes.append((name, bars))
    return Figure(
        id=id,
        title=title,
        caption="pass@1 with 95 % task-clustered intervals; parts of fewer than 10 tasks have none.",
        draw=lambda width: plots.bars(shapes, width),
        table=Table(["part", "campaign", "tasks", "pass@1", "low", "high"], rows),
        legend=[(f"mark {kind}", label) for kind, label, _ in series] if len(series) > 1 else (),
    )


def failures(data: Any, series: Series, *, id: str = "failure-classes") -> Figure:
    """Failed attempts by class: `series` name dicts of counts."""
    names = list(lookup(data, pointer(*series[0][2])))
    shapes = [
        (
            name,
            [(kind, label, lookup(data, pointer(*keys, name))) for kind, label, keys in series],
        )
        for name in names
    ]
    rows = [
        [name] + [at(data, *keys, name, how="count") for _, _, keys in series] for name in names
    ]
    return Figure(
        id=id,
        title="Why attempts failed",
        caption="Failed attempts by class, one class each; attempts without reward are not among them.",
        draw=lambda width: plots.counts(shapes, width),
        table=Table(["class", *(label for _, label, _ in series)], rows),
        legend=[(f"mark {kind}", label) for kind, label, _ in series] if len(series) > 1 else (),
    )


def usage_table(data: Any, *keys: str | int) -> Table:
    """Mean, median and 90th percentile of each measure by outcome."""
    parts_ = lookup(data, pointer(*keys))
    rows: list[list[Cell]] = []
    for i, part in enumerate(parts_):
        for measure, values in part["measures"].items():
            if not values["sum"]:
                continue
            place = (*keys, i, "measures", measure)
            rows.append(
                [part["outcome"], measure.replace("_", " ")]
                + [at(data, *place, name, how="count") for name in ("mean", "median", "p90", "max")]
                + [at(data, *place, "sum", how="count")]
            )
    return Table(
        ["outcome", "measure", "mean", "median", "90 %", "most", "sum"],
        rows,
        "Per attempt; measures that are zero are left out, and prompt tokens count once",
    )


def cost(data: Any, *keys: str | int) -> list[Block]:
    """Unit costs as cards, and who was paid."""
    ledger = lookup(data, pointer(*keys))
    currency = ledger["currency"]
    cards = [
        Card(
            label=f"{currency} per {unit['name']}",
            number=at(data, *keys, "units", i, "value", how="money"),
            fraction=(
                at(data, *keys, "units", i, "cost", how="money"),
                at(data, *keys, "units", i, "units", how="count"),
                "",
            )
            if unit["units"]
            else None,
            note=unit["note"],
        )
        for i, unit in enumerate(ledger["units"])
    ]
    rows: list[list[Cell]] = [
        [
            payee,
            *(at(data, *keys, part, f"{payee}_cost", how="money") for part in ("all", "wasted")),
        ]
        for payee in ("agent", "user", "judge", "environment")
    ]
    rows.append(
        ["all", *(at(data, *keys, part, "cost", how="money") for part in ("all", "wasted"))]
    )
    return [
        Cards(cards),
        Table(["paid for", currency, "of it without reward"], rows),
        Text(f"Prices of {ledger['prices_of']}. Probing and training are not in these costs."),
    ]


def differences(data: Any, *keys: str | int, names: tuple[str, str] = ("A", "B")) -> Table:
    """The differences of a Paired at `keys`; `names` are of its two sides."""
    found = lookup(data, pointer(*keys, "differences"))
    rows = []
    for i, one in enumerate(found):
        place = (*keys, "differences", i)
        shares: list[Cell] = [at(data, *place, name, how="percent") for name in ("a", "b")]
        moved: list[Cell] = [at(data, *place, n, how="points") for n in ("value", "low", "high")]
        rows.append([one["name"], *shares, *moved, at(data, *place, "p_value", how="p")])
    tests = sorted({one["test"] for one in found})
    return Table(
        ["figure", *names, f"{names[1]} − {names[0]}, points", "low", "high", "p"],
        rows,
        f"{found[0]['tasks']} tasks, paired. Intervals: {found[0]['interval']}. "
        f"Tests: {'; '.join(tests)}",
    )


def scatter(data: Any, *keys: str | int, names: tuple[str, str] = ("A", "B")) -> Figure:
    """Before and after of the tasks of a Comparison: records with a and b counts at `keys`."""
    a, b = names
    tasks = lookup(data, pointer(*keys))
    pairs = [
        (t["task_id"], t["a"]["passed"] / t["a"]["clean"], t["b"]["passed"] / t["b"]["clean"])
        for t in tasks
    ]
    rows = [
        [task["task_id"]]
        + [at(data, *keys, i, s, n, how="count") for s in "ab" for n in ("passed", "clean")]
        for i, task in enumerate(tasks)
    ]
    return Figure(
        id="before-after",
        title="Every task, before and after",
        caption="Above the diagonal a task passes more often "
        f"{_in(b)} than {_in(a)}. A dot's area is the number of tasks at that place.",
        draw=lambda width: plots.before_after(pairs, width, names),
        table=Table(["task", f"{a} passed", "of", f"{b} passed", "of"], rows),
        legend=[
            ("dot gain", f"better {_in(b)}"),
            ("dot loss", f"worse {_in(b)}"),
            ("dot same", "equal"),
        ],
    )


def _in(name: str) -> str:
    """A single letter names a campaign, a word a time."""
    return f"in {name}" if len(name) == 1 else name


def difficulty(data: Any, kept: Sequence[str], *keys: str | int) -> Figure:
    """Histogram of the tasks at `keys` (records with passed, clean and band)."""
    tasks = lookup(data, pointer(*keys))
    rates = [t["passed"] / t["clean"] for t in tasks if t["clean"]]
    rows = [
        [
            task["task_id"],
            at(data, *keys, i, "passed", how="count"),
            at(data, *keys, i, "clean", how="count"),
            task["band"].replace("_", " "),
        ]
        for i, task in enumerate(tasks)
    ]
    return Figure(
        id="difficulty",
        title="Difficulty",
        caption="Tasks by observed pass rate, with the five bands and the number of tasks in each"
        + ("; retained bands are tinted." if kept else "."),
        draw=lambda width: plots.difficulty(rates, kept, width),
        table=Table(["task", "passed", "clean attempts", "band of maximum mass"], rows),
    )


def posteriors(data: Any, *keys: str | int) -> Figure:
    """How well each pass rate is known: records with mean, low and high at `keys`."""
    tasks = lookup(data, pointer(*keys))
    shapes = [(task["mean"], task["low"], task["high"]) for task in tasks]
    rows = [
        [task["task_id"]]
        + [at(data, *keys, i, name, how="percent") for name in ("mean", "low", "high")]
        for i, task in enumerate(tasks)
    ]
    return Figure(
        id="posteriors",
        title="How well each pass rate is known",
        caption="Mean and 95 % interval of the Jeffreys posterior of every task; dashed lines are "
        "band edges.",
        draw=lambda width: plots.posteriors(shapes, width),
        table=Table(["task", "posterior mean", "low", "high"], rows),
    )


def cost_dependability(data: Any, series: Series) -> Figure:
    """`series` name campaigns with `cost` and `results`."""
    points, rows, currency = [], [], ""
    for kind, label, keys in series:
        ledger = lookup(data, pointer(*keys, "cost"))
        result = lookup(data, pointer(*keys, "results"))
        currency = ledger["currency"]
        points.append(
            (kind, label, ledger["all"]["cost"] / result["tasks"], result["observed_all"]["value"])
        )
        rows.append(
            [
                label,
                at(data, *keys, "cost", "all", "cost", how="money"),
                at(data, *keys, "results", "tasks", how="count"),
                at(data, *keys, "results", "observed_all", "value", how="percent"),
                at(data, *keys, "cost", "units", 2, "value", how="money"),
            ]
        )
    return Figure(
        id="cost-dependability",
        title="Cost against dependability",
        caption="Cost of the campaign per task, and the share of tasks whose attempts all passed; "
        "better is up and to the left.",
        draw=lambda width: plots.cost_dependability(points, currency, width),
        table=Table(
            ["campaign", f"cost, {currency}", "tasks", "dependable", "per dependable task"], rows
        ),
    )


def training_curve(
    data: Any, keys: Keys, lines: Mapping[str, str], *, id: str, title: str, caption: str
) -> Figure:
    """Columns of the records at `keys` over their `update`: `lines` gives key → label."""
    steps = lookup(data, pointer(*keys))
    kinds = dict(zip(lines, "abcd", strict=False))
    shapes = [
        (kinds[key], label, [(float(step["update"]), step.get(key)) for step in steps])
        for key, label in lines.items()
    ]
    how: Format = "number"
    rows = [
        [
            at(data, *keys, i, "update", how="count"),
            *(at(data, *keys, i, key, how=how) if key in step else "–" for key in lines),
        ]
        for i, step in enumerate(steps)
    ]
    return Figure(
        id=id,
        title=title,
        caption=caption,
        draw=lambda width: plots.curve(shapes, title, width),
        table=Table(["update", *lines.values()], rows),
        legend=[(f"mark {kinds[key]}", label) for key, label in lines.items()]
        if len(lines) > 1
        else (),
    )
