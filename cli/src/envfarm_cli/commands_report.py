"""`envfarm report`: one folder of results as a page, as Markdown and as JSON."""

from pathlib import Path
from typing import Annotated

import typer

from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.commands_compare import PricesOption
from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.report_files import name_of, prices, suite_of, write_report
from envfarm_numbers.report.campaign_data import campaign_data
from envfarm_numbers.report.campaign_report import campaign_report
from envfarm_numbers.report.document import Document, show
from envfarm_numbers.report.selection_report import selection_data, selection_report
from envfarm_numbers.report.training_report import training_report
from envfarm_numbers.rows import FILE_NAME, read_campaign
from envfarm_numbers.selection_files import read_tasks


def report_(
    path: Annotated[
        Path,
        typer.Argument(
            help="An evaluation's rows (attempts.jsonl or a folder with one), a selection's folder, "
            "or a learner's folder with steps.jsonl."
        ),
    ],
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write to; without it PATH/report, or beside a file."),
    ] = None,
    suite: Annotated[
        Path | None,
        typer.Option(help="The suite that was evaluated; without it PATH/suite.json, if any."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Planned repetitions; without it those of the rows."),
    ] = None,
    sheet: PricesOption = None,
    title: Annotated[str, typer.Option(help="Heading; without it the folder's name.")] = "",
    json: JsonOption = False,
) -> int:
    """Write a report: report.html (one file, no request to anywhere), report.md, summary.json.

    No headline is given unless every planned attempt has a reward; the bounds say then what the
    missing ones could change. Two campaigns are reported by [b]envfarm compare A B --out DIR[/b].

    Example: [b]envfarm report runs/base --prices prices.toml[/b]
    """
    out, name = Output(json), title or name_of(path)
    if not path.exists():
        raise BadInput(f"there is no {path}")
    if k or suite or sheet or not _is_other(path):
        document = campaign_report(
            campaign_data(
                read_campaign(path),
                name=name,
                suite=suite_of(path, suite),
                repetitions=k,
                sheet=prices(sheet),
            )
        )
    elif (path / "manifest.json").exists():
        document = selection_report(selection_data(*read_tasks(path)), name)
    else:
        document = training_report(_steps(path), name)
    folder = out_dir or (path if path.is_dir() else path.parent) / "report"
    write_report(document, folder)
    _show(document, out)
    out.say(f"written: {plain(folder / 'report.html')}, report.md, summary.json")
    out.result({"ok": True, "folder": str(folder), "summary": document.data})
    return OK


def _is_other(path: Path) -> bool:
    """A selection's or a learner's folder, and no campaign's."""
    if (path / FILE_NAME).exists():
        return False
    return any((path / name).exists() for name in ("manifest.json", "steps.jsonl"))


def _steps(path: Path) -> list[dict[str, object]]:
    steps = curves(read_steps(path), [])
    if not steps:
        raise BadInput(f"{path / 'steps.jsonl'}: no update in it yet")
    return steps


def _show(document: Document, out: Output) -> None:
    out.say(f"[b]{plain(document.title)}[/b]  {plain(document.subtitle)}")
    for notice in document.notices:
        out.say(f"[yellow]![/yellow] {plain(notice.text)}")
    results = document.data.get("results")
    for name in ("pass_at_1", "pass_at_k", "pass_hat_k", "observed_all", "ever_passed"):
        if results:
            one = results[name]
            between = ""
            if one["low"] is not None:
                between = f"  {show(one['low'], 'percent')} to {show(one['high'], 'percent')}"
            out.say(f"  {one['name']:<14} {show(one['value'], 'percent'):>9}{between}")
