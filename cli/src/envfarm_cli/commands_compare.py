"""`envfarm compare A B`, and with `--task` one task of both side by side."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.report_files import name_of, prices, write_report
from envfarm_numbers.comparison import Comparison, compare_campaigns
from envfarm_numbers.report.comparison_report import comparison_report
from envfarm_numbers.report.document import show
from envfarm_numbers.report.task_report import task_report
from envfarm_numbers.rows import Campaign, read_campaign
from envfarm_numbers.task_view import ViewedAttempt, read_records, view_task

ROWS = "attempts.jsonl, or a folder with one"
PricesOption = Annotated[
    Path | None, typer.Option("--prices", help="Price sheet (TOML) for a cost ledger.")
]


def compare_(
    a: Annotated[Path, typer.Argument(help=f"The campaign before: {ROWS}.")],
    b: Annotated[Path, typer.Argument(help=f"The campaign after: {ROWS}.")],
    task: Annotated[
        str, typer.Option("--task", help="Show all attempts of this task side by side.")
    ] = "",
    records: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --task: folders below which gateways wrote conversations.jsonl; without it "
            "those of A and B are searched. Repeatable."
        ),
    ] = None,
    sheet: PricesOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Pair campaigns that used different interfaces.")
    ] = False,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for report.html, report.md, summary.json.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Compare two campaigns task by task: what changed, how surely, what was gained and lost.

    Every difference is B − A over the tasks that both have with the same content. Intervals draw
    tasks, tests swap A and B within tasks. Differences in prompts, sampling or k are warned of.

    Example: [b]envfarm compare runs/base runs/trained --out runs/compared[/b]

    Example: [b]envfarm compare runs/base runs/trained --task orders/refund-damaged[/b]
    """
    out, names = Output(json), (name_of(a), name_of(b))
    campaigns = (read_campaign(a), read_campaign(b))
    if task:
        return _one_task(task, (a, b), campaigns, records, out_dir, out)
    if records:
        raise BadInput("--records goes with --task")
    with out.console.status("comparing"):
        found = compare_campaigns(*campaigns, names=names, sheet=prices(sheet), force=force)
    for warning in found.warnings:
        out.say(f"[yellow]![/yellow] {plain(warning)}")
    _show(found, out)
    if out_dir:
        write_report(comparison_report(found), out_dir)
        out.say(f"the report is {plain(out_dir / 'report.html')}")
    out.result({"ok": True, "folder": str(out_dir) if out_dir else None, **found.to_dict()})
    return OK


def _show(found: Comparison, out: Output) -> None:
    table = Table(
        "figure",
        *(
            Column(name, justify="right")
            for name in ("A", "B", "B − A, points", "95 % interval", "p")
        ),
        title=f"A {plain(found.a.name)}, B {plain(found.b.name)}: {found.paired.tasks} tasks, "
        f"k = {found.paired.repetitions}",
        title_justify="left",
    )
    for one in found.paired.differences:
        known = one.low is not None
        between = f"{show(one.low, 'points')} to {show(one.high, 'points')}" if known else "–"
        table.add_row(
            one.name,
            show(one.a, "percent"),
            show(one.b, "percent"),
            show(one.value, "points"),
            between,
            f"{one.p_value:.3g}",
        )
    out.show(table)
    paired = found.paired
    for what, tasks in (
        ("now pass every time", paired.gained_all),
        ("no longer pass every time", paired.lost_all),
        ("pass for the first time", paired.gained_ever),
        ("never pass any more", paired.lost_ever),
    ):
        shown = ", ".join(tasks[:4]) + (" …" if len(tasks) > 4 else "")
        out.say(f"{len(tasks):>4} {what}" + (f": [dim]{plain(shown)}[/dim]" if tasks else ""))
    for key, side in (("A", found.a), ("B", found.b)):
        if side.ledger:
            prices_each = ", ".join(
                f"{show(unit.value, 'money')} per {unit.name}" if unit.units else unit.note
                for unit in side.ledger.units
            )
            spent = f"{show(side.ledger.all.cost, 'money')} {side.ledger.currency}"
            out.say(f"cost of {key}: {plain(spent)}; {plain(prices_each)}")


def _one_task(
    task: str,
    paths: tuple[Path, Path],
    campaigns: tuple[Campaign, Campaign],
    records: list[Path] | None,
    out_dir: Path | None,
    out: Output,
) -> int:
    folders = records or [path if path.is_dir() else path.parent for path in paths]
    sides = view_task(task, campaigns, read_records(folders, task))
    names = [f"{key}: {name_of(path)}" for key, path in zip("AB", paths, strict=True)]
    document = task_report(task, names, sides)
    for name, side in zip(names, sides, strict=True):
        out.show(_attempts(name, side))
    if not any(attempt.record for side in sides for attempt in side):
        out.say("no conversation was found: name the gateway's state folder with --records")
    else:
        out.say("[dim]a conversation: envfarm episode show ROLLOUT --records GATEWAY_STATE[/dim]")
    if out_dir:
        write_report(document, out_dir)
        out.say(f"with conversations: {plain(out_dir / 'report.html')}")
    out.result({"ok": True, "folder": str(out_dir) if out_dir else None, **document.data})
    return OK


def _attempts(name: str, side: list[ViewedAttempt]) -> Table:
    table = Table(
        "rep.",
        "result",
        "database",
        "why",
        Column("changes", ratio=1),
        "rollout",
        title=plain(name),
        title_justify="left",
    )
    for attempt in side:
        row = attempt.row
        result = "no reward" if row.reward is None else "passed" if row.reward else "failed"
        colour = {"passed": "green", "failed": "red"}.get(result, "dim")
        why = attempt.failure or row.error_class
        table.add_row(
            str(row.repetition),
            f"[{colour}]{result}[/{colour}]",
            attempt.end,
            plain(why),
            plain("\n".join(attempt.diff)),
            plain(row.rollout_id),
        )
    return table
