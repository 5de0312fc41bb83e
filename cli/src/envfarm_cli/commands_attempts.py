"""`envfarm attempts audit`: what happened to attempts without a reward."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from envfarm.attempt_row import AttemptRow
from rich.table import Table

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.excused import CANCELLED, Excuse, Uneven, excuses, uneven
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain

FILE = "attempts.jsonl"
SHOWN_MESSAGE = 160

app = typer.Typer(
    no_args_is_help=True,
    help="Look at recorded attempts.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Look at recorded attempts."""


@app.command(epilog=EXIT_CODES)
def audit(
    runs: Annotated[
        Path, typer.Option(help="An attempts.jsonl, or a folder with some in it or below.")
    ],
    json: JsonOption = False,
) -> int:
    """List every kind of attempt without reward: its class, the rule, the boundary, the raw error.

    Warns, and exits with 1, where the share of such attempts differs between tasks or between
    checkpoints (Fisher's exact test, Holm-corrected, 1 %): then the attempts that are left are not
    a fair sample, and figures made from them are bent.

    Example: [b]envfarm attempts audit --runs runs/demo[/b]
    """
    out, rows = Output(json), load_rows(runs)
    found, bent = excuses(rows), uneven(rows)
    excused = sum(e.attempts for e in found if e.status != CANCELLED)
    cancelled = sum(e.attempts for e in found if e.status == CANCELLED)
    out.say(
        f"{len(rows)} attempts: {len(rows) - excused - cancelled} with a reward, {excused} excused, "
        f"{cancelled} cancelled with their group"
    )
    if found:
        out.show(_table(found))
    for one in bent:
        out.say(f"[yellow]![/yellow] {plain(_sentence(one))}")
    if not bent:
        out.say(
            "[green]✓[/green] no task and no checkpoint is excused more or less than the others"
        )
    out.result(
        {
            "ok": not bent,
            "attempts": len(rows),
            "excused": excused,
            "cancelled": cancelled,
            "excuses": [asdict(one) for one in found],
            "uneven": [
                {**asdict(one), "share": one.share, "others_share": one.others_share}
                for one in bent
            ],
        }
    )
    return FAILED if bent else OK


def load_rows(place: Path) -> list[AttemptRow]:
    """BadInput when there are none; ConfigError names a damaged line."""
    paths = [place] if place.is_file() else sorted(place.rglob(FILE))
    rows = []
    for path in paths:
        with path.open(encoding="utf-8") as source:
            # A line without its end is being written.
            for number, line in enumerate(source, 1):
                if line.endswith("\n"):
                    rows.append(AttemptRow.from_json(line, f"{path}:{number}"))
    if not rows:
        raise BadInput(
            f"--runs: no attempts are recorded in {place}",
            hint="name an attempts.jsonl, or a folder that a gateway or a campaign wrote",
        )
    return rows


def _table(found: list[Excuse]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("attempts", justify="right")
    for name in ("status", "class", "boundary", "rule", "first of them"):
        table.add_column(name)
    for one in found:
        example = one.example[:SHOWN_MESSAGE]
        cells = (one.status, one.error_class, one.boundary, one.rule, example)
        table.add_row(str(one.attempts), *map(plain, cells))
    return table


def _sentence(one: Uneven) -> str:
    return (
        f"{one.family} {one.name}: {one.excused} of {one.attempts} attempts were excused "
        f"({one.share:.0%}), of all others {one.others_excused} of {one.others_attempts} "
        f"({one.others_share:.0%}); p = {one.p:.2g}"
    )
