"""`envfarm report`: one folder of results as a page, as Markdown and as JSON."""

from pathlib import Path
from typing import Annotated, Any

import typer

from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.campaign.files import read_json
from envfarm_cli.commands_compare import PricesOption
from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.report_files import name_of, planned, suite_of, write_report
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.report.campaign_data import campaign_data
from envfarm_numbers.report.campaign_report import campaign_report
from envfarm_numbers.report.document import Document, show
from envfarm_numbers.report.runs_report import runs_data, runs_report
from envfarm_numbers.report.selection_report import selection_data, selection_report
from envfarm_numbers.report.training_report import training_report
from envfarm_numbers.rows import FILE_NAME, Campaign, read_campaign
from envfarm_numbers.selection_files import read_tasks


def report_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="An evaluation's rows (attempts.jsonl or a folder with one), a selection's folder, "
            "a training run's folder, or a learner's with steps.jsonl. Several evaluations, earliest "
            "first, and training runs make one report together."
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
        typer.Option(
            "-k",
            min=1,
            help="Planned repetitions; without it the campaign's, or those of the rows.",
        ),
    ] = None,
    probe: Annotated[
        list[Path] | None,
        typer.Option(
            help="With several: rows of a probe, whose cost stands apart. Repeatable; needs --prices."
        ),
    ] = None,
    sheet: PricesOption = None,
    title: Annotated[str, typer.Option(help="Heading; without it the folder's name.")] = "",
    json: JsonOption = False,
) -> int:
    """Write a report: report.html (one file, no request to anywhere), report.md, summary.json.

    No headline is given unless every planned attempt has a reward; the bounds say then what the
    missing ones could change. [b]envfarm compare A B --out DIR[/b] goes deeper into two of them.

    Example: [b]envfarm report runs/base --prices prices.toml[/b]

    Example: [b]envfarm report runs/base runs/train runs/trained --out runs/all[/b]
    """
    out, known = Output(json), PriceSheet.read(sheet) if sheet else None
    for path in paths:
        if not path.exists():
            raise BadInput(f"there is no {path}")
    if len(paths) == 1:
        if probe:
            raise BadInput("--probe goes with several campaigns")
        document = _one(paths[0], title or name_of(paths[0]), suite, k, known)
        folder = out_dir or (paths[0] if paths[0].is_dir() else paths[0].parent) / "report"
    else:
        if out_dir is None:
            raise BadInput("a report of several campaigns needs --out")
        document = _several(paths, title, suite, k, probe or [], known)
        folder = out_dir
    write_report(document, folder)
    _show(document, out)
    out.say(f"written: {plain(folder / 'report.html')}, report.md, summary.json")
    out.result({"ok": True, "folder": str(folder), "summary": document.data})
    return OK


def _one(
    path: Path, name: str, suite: Path | None, k: int | None, sheet: PriceSheet | None
) -> Document:
    if k or suite or (sheet and not _learner_folder(path)) or not _is_other(path):
        return campaign_report(_evaluated(path, name, suite, k, sheet)[0])
    if (path / "manifest.json").exists():
        return selection_report(selection_data(*read_tasks(path)), name)
    return training_report(_steps(path), name)


def _several(
    paths: list[Path],
    title: str,
    suite: Path | None,
    k: int | None,
    probes: list[Path],
    sheet: PriceSheet | None,
) -> Document:
    names = _names(paths)
    if selected := [path for path in paths if (path / "manifest.json").exists()]:
        raise BadInput(f"{selected[0]} is a selection", hint="it has a report of its own")
    training = {names[path]: _steps(path) for path in paths if _learner_folder(path)}
    evaluated = [
        _evaluated(path, names[path], suite, k, sheet)
        for path in paths
        if not _learner_folder(path)
    ]
    probed = {name: read_campaign(path) for path, name in _names(probes).items()}
    data = runs_data(evaluated, training=training, probes=probed, sheet=sheet)
    return runs_report(data, title or ", ".join(names.values()))


def _evaluated(
    path: Path, name: str, suite: Path | None, k: int | None, sheet: PriceSheet | None
) -> tuple[dict[str, Any], Campaign]:
    campaign = read_campaign(path)
    data = campaign_data(
        campaign,
        name=name,
        suite=suite_of(path, suite),
        repetitions=k or planned(path),
        sheet=sheet,
    )
    return data, campaign


def _names(paths: list[Path]) -> dict[Path, str]:
    """BadInput when a path is there twice; names that are not enough get their folder's, too."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise BadInput("one campaign is named twice")
    short = [name_of(path) for path in paths]
    return {
        path: name if short.count(name) == 1 else str(path)
        for path, name in zip(paths, short, strict=True)
    }


def _learner_folder(path: Path) -> Path | None:
    """The folder with the learner's steps: of a training run, or itself."""
    if (path / FILE_NAME).exists():
        return None
    return next((at for at in (path, path / "learner") if (at / "steps.jsonl").exists()), None)


def _is_other(path: Path) -> bool:
    """A selection's or a training run's folder, and no campaign's."""
    if (path / FILE_NAME).exists():
        return False
    return (path / "manifest.json").exists() or _learner_folder(path) is not None


def _steps(path: Path) -> list[dict[str, Any]]:
    """The curves of a finished training run hold the sampled rewards, too."""
    kept = read_json(path / "curves.json")
    folder = _learner_folder(path)
    assert folder
    steps = read_steps(folder)
    if not steps:
        raise BadInput(f"{folder / 'steps.jsonl'}: no update in it yet")
    found = curves(steps, [])
    if isinstance(kept, list) and len(kept) == len(found):
        found = kept
    seconds = [step.get("seconds") for step in steps]
    return [{**point, "seconds": one} for point, one in zip(found, seconds, strict=True)]


def _show(document: Document, out: Output) -> None:
    out.say(f"[b]{plain(document.title)}[/b]  {plain(document.subtitle)}")
    for notice in document.notices:
        out.say(f"[yellow]![/yellow] {plain(notice.text)}")
    before_after = document.data.get("before_after")
    if before_after:
        one = before_after["paired"]["differences"][0]
        out.say(f"  pass@1, last minus first: {show(one['value'], 'points')} points")
    results = document.data.get("results")
    for name in ("pass_at_1", "pass_at_k", "pass_hat_k", "observed_all", "ever_passed"):
        if results:
            one = results[name]
            between = ""
            if one["low"] is not None:
                between = f"  {show(one['low'], 'percent')} to {show(one['high'], 'percent')}"
            out.say(f"  {one['name']:<14} {show(one['value'], 'percent'):>9}{between}")
