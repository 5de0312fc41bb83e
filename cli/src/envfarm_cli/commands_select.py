"""`envfarm select`: from a probe's rows to the tasks to train on; `--age` looks back later."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.commands_stack import DEFAULT_DOMAINS, DomainsOption, JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.task_facts_files import known_domains, read_facts
from envfarm_numbers.counts import read_counts
from envfarm_numbers.drift import Drift, drift
from envfarm_numbers.exclusion import Exclusions
from envfarm_numbers.selection import ReferenceGate, Selection, Settings, select
from envfarm_numbers.selection_files import read_inputs, read_tasks, texts
from envfarm_numbers.task_facts import TaskFacts

SHOWN = 12
"""Rejected tasks, and drifted ones, that are shown to people."""


RowsArgument = Annotated[
    list[Path], typer.Argument(help="Attempt rows of one probe: folders or attempts.jsonl files.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder for the selection's four files.")
]
BandOption = Annotated[
    list[str] | None,
    typer.Option(
        "--band",
        help="Band to retain: too_hard, hard, medium, easy, too_easy. Repeatable; without it hard, "
        "medium and easy.",
    ),
]
ReferenceOption = Annotated[
    list[Path] | None,
    typer.Option(help="Rows of a stronger model that must have solved the task. Repeatable."),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--reference-rate-above", min=0, max=1, help="With --reference-probability, a rate."
    ),
]
ProbabilityOption = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Posterior probability that its rate is above that."),
]
ExcludeOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Tasks never to train on: a suite (JSON), or a list of ids and content hashes. Copies "
        "under other names are found by text and by golden run. Repeatable."
    ),
]
AgeOption = Annotated[
    Path | None,
    typer.Option(
        help="A selection's folder: read ROWS as training's and show how far they have drifted."
    ),
]
OnlyRowsOption = Annotated[
    bool,
    typer.Option("--only-rows", help="Do not look at the domains: no tags, texts and golden runs."),
]
Clean = Annotated[int, typer.Option("--min-clean", min=1, help="Clean runs a task needs.")]
ReferenceClean = Annotated[
    int, typer.Option("--reference-min-clean", min=1, help="Clean runs the reference needs.")
]
ReferencePassed = Annotated[
    int, typer.Option("--reference-min-passed", min=1, help="Passes the reference needs.")
]


def select_(
    rows: RowsArgument,
    out_dir: OutOption = None,
    band: BandOption = None,
    minimum_clean: Clean = 3,
    reference: ReferenceOption = None,
    reference_clean: ReferenceClean = 1,
    reference_passed: ReferencePassed = 1,
    reference_rate: RateOption = None,
    reference_probability: ProbabilityOption = None,
    exclude: ExcludeOption = None,
    validation: Annotated[
        float, typer.Option(min=0, max=0.99, help="Share of the selected tasks held out.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, help="Of the split.")] = 42,
    group_size: Annotated[int, typer.Option(min=2, help="Attempts in a group of training.")] = 8,
    age: AgeOption = None,
    only_rows: OnlyRowsOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another selection.")] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Choose the tasks to train on from what a probe found, and say why the others are not.

    Each task's passes give a Jeffreys posterior, Beta(k + ½, n − k + ½), and its band is the one of
    most mass. Attempts without reward are never failures. The same inputs give the same bytes:
    manifest.json, tasks.jsonl (every candidate with its reasons), train.json, validation.json.
    Without --out nothing is written.

    Example: [b]envfarm select runs/probe --exclude suites/held-out.json --out runs/selection[/b]

    Example: [b]envfarm select --age runs/selection runs/train[/b]
    """
    out = Output(json)
    if age:
        return _age(age, rows, out)
    gate = ReferenceGate(
        minimum_clean=reference_clean,
        minimum_passed=reference_passed,
        rate_above=reference_rate,
        probability=reference_probability,
    )
    if not reference and gate != ReferenceGate():
        raise BadInput("the gate needs rows of a reference model: give --reference")
    settings = Settings(
        bands=tuple(band) if band else Settings().bands,
        minimum_clean=minimum_clean,
        validation_share=validation,
        seed=seed,
        group_size=group_size,
        gate=gate if reference else None,
    )
    settings.check()
    with out.console.status("reading rows"):
        inputs = read_inputs(rows, reference or [], exclude or [])
        facts = {} if only_rows else _facts(domains, list(inputs.policy.tasks))
        excluded = Exclusions.read(exclude or [])
        found = select(
            inputs.policy, facts, settings, reference=inputs.reference, exclusions=excluded
        )
    if out_dir:
        _write(out_dir, texts(found, inputs), force)
    _show(found, out)
    out.say(f"written to {plain(out_dir)}" if out_dir else "nothing was written; give --out")
    out.result(_result(found, out_dir))
    return OK


def _facts(domains: Path, ids: list[str]) -> dict[str, TaskFacts]:
    names = known_domains(domains, ids)
    if not names:
        raise BadInput(
            f"{domains} has no domain of these rows, such as that of {ids[0]}",
            hint="name the folder with --domains, or say --only-rows",
        )
    return read_facts(domains, names)


def _result(found: Selection, folder: Path | None) -> dict[str, Any]:
    return {
        "ok": True,
        "folder": str(folder) if folder else None,
        **found.summary(),
        "near_duplicates": found.duplicates,
        "rejected": {task.facts.task_id: task.reasons for task in found.judged if task.reasons},
    }


def _write(folder: Path, files: dict[str, str], force: bool) -> None:
    manifest = folder / "manifest.json"
    if manifest.exists() and manifest.read_text() != files["manifest.json"] and not force:
        raise BadInput(
            f"{folder} holds another selection", hint="choose another folder, or say --force"
        )
    # The manifest names the others, so it comes last.
    for name in ("tasks.jsonl", "train.json", "validation.json", "manifest.json"):
        write_durably(folder / name, files[name].encode())


def _show(found: Selection, out: Output) -> None:
    summary = found.summary()
    table = Table(
        "band", Column("candidates", justify="right"), Column("selected", justify="right")
    )
    for name, numbers in summary["bands"].items():
        kept = " (retained)" if name in found.settings.bands else ""
        table.add_row(name + kept, str(numbers["candidates"]), str(numbers["selected"]))
    out.show(table)
    rejected = [task for task in found.judged if task.reasons]
    for task in rejected[:SHOWN]:
        out.say(f"[red]✗[/red] {plain(task.facts.task_id)}: {plain('; '.join(task.reasons))}")
    if len(rejected) > SHOWN:
        out.say(f"[dim]… and {len(rejected) - SHOWN} more rejected, all in tasks.jsonl[/dim]")
    for group in found.duplicates[:SHOWN]:
        same = group["same"].removesuffix("_hash")
        out.say(f"[yellow]![/yellow] same {same}: {plain(', '.join(group['tasks']))}")
    out.say(
        f"{summary['selected']} of {summary['candidates']} tasks selected: {summary['train']} to "
        f"train, {summary['validation']} to validate; {summary['expected_informative_groups']:.1%} of "
        f"groups of {summary['group_size']} are expected to be informative"
    )


def _age(folder: Path, rows: list[Path], out: Output) -> int:
    manifest, lines = read_tasks(folder)
    selected = [line for line in lines if not line["reasons"]]
    trained = read_counts(rows)
    try:
        found = drift(selected, trained.tasks, manifest["settings"]["group_size"])
    except ValueError as error:
        raise BadInput(f"{folder}: {error}", hint="name the rows of a training run") from error
    _show_age(found, out)
    out.result({"ok": True, **found.to_dict()})
    return OK


def _show_age(found: Drift, out: Output) -> None:
    table = Table(
        Column("task", no_wrap=True), "probed", "in training", "band then", "band now", "p"
    )
    for task in found.tasks[:SHOWN]:
        then, now = ("/".join(map(str, pair)) for pair in (task.probed, task.trained))
        row: list[Any] = [plain(task.task_id), then, now, task.band, task.new_band]
        table.add_row(*row, f"{task.p_value:.3g}")
    out.show(table)
    out.say(
        f"{found.drifted} of {len(found.tasks)} tasks drifted (p < 0.05; one in twenty is chance), "
        f"{found.left_band} left their band, {found.unseen} were not trained on; pass rates changed by "
        f"{found.mean_change:+.1%} on average"
    )
    out.say(
        f"expected informative groups: {found.informative_then:.1%} as probed, "
        f"{found.informative_now:.1%} now"
    )
