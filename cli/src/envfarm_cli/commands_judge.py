"""`envfarm judge audit`."""

import json as json_
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from envfarm_cli import settings
from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput, ChildFailed
from envfarm_cli.output import EXIT_CODES, OK, Output, plain

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", epilog=EXIT_CODES)


@app.callback()
def _group() -> None:
    """Look at the judge that answers rubrics."""


@app.command(epilog=EXIT_CODES)
def audit(
    pairs: Annotated[
        Path | None,
        typer.Option(help="Labelled pairs (YAML); without it those that come along."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the endpoint; else count recorded answers.")
    ] = False,
    url: Annotated[
        str, typer.Option(help="OpenAI-compatible endpoint up to /v1; else GRADER_JUDGE_URL.")
    ] = "",
    model: Annotated[str, typer.Option(help="Model to ask; else GRADER_JUDGE_MODEL.")] = "",
    repeat: Annotated[int, typer.Option(min=1, max=100, help="Times each pair is asked.")] = 3,
    record: Annotated[
        Path | None, typer.Option(help="Write the pairs with the answers here.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Measure a judge on pairs that people have labelled: agreement, flip rate, sway rate.

    Agreement is the share of answers that equal the label, with a 95 % interval. A pair flips when
    it is not answered alike every time. A pair is swayed when a false claim about the right answer,
    added to the text, changes the answer. The key of the endpoint comes from GRADER_JUDGE_API_KEY.

    Example: [b]envfarm judge audit --live --url http://127.0.0.1:8000/v1 --model qwen3 --record q.yaml[/b]
    """
    out = Output(json)
    if not live and (url or model or record):
        raise BadInput("--url, --model and --record ask an endpoint", hint="add --live")
    flags = {"--pairs": pairs, "--url": url, "--model": model, "--record": record}
    words = [f"{flag}={value}" for flag, value in flags.items() if value]
    figures = _run([*words, *(["--live", f"--repeat={repeat}"] if live else [])], out)
    _show(figures, out)
    out.result({"ok": True, **figures})
    return OK


def _run(words: list[str], out: Output) -> dict[str, Any]:
    """The figures that the grader's own command prints; its last word when it fails."""
    with (
        out.console.status("auditing") as status,
        # A file, since a pipe that nobody reads while the progress is read would fill up.
        TemporaryFile("w+", encoding="utf-8") as answer,
        subprocess.Popen(
            [sys.executable, "-m", "grader.judge.audit_command", *words],
            env={"PATH": settings.search_path(), "LANG": "C.UTF-8", **settings.judge()},
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            text=True,
        ) as child,
    ):
        assert child.stderr
        said = ""
        for said in child.stderr:
            status.update(plain(said.strip()))
        if child.wait() != 0:
            message, _, hint = said.strip().removeprefix("error: ").partition(" — ")
            raise ChildFailed(message or "the audit ended without a word", hint=hint)
        answer.seek(0)
        return json_.load(answer)


def _show(figures: dict[str, Any], out: Output) -> None:
    out.say(f"[b]judge[/b]      {plain(figures['judge'])}")
    out.say(
        f"[b]agreement[/b]  {figures['agreement']:.1%} ({figures['agreed']} of {figures['answers']}"
        f" answers; 95 % interval {figures['agreement_low']:.1%} to {figures['agreement_high']:.1%};"
        f" {figures['unparsable']} neither yes nor no)"
    )
    for name in ("flip", "sway"):
        count = figures["flipped" if name == "flip" else "swayed"]
        share = figures[f"{name}_rate"]
        out.say(f"[b]{name} rate[/b]  {share:.1%} ({count} of {figures['pairs']} pairs)")
    if figures["wrong"]:
        table = Table("question", "text", Column("label", no_wrap=True), "said")
        for row in figures["wrong"]:
            table.add_row(
                *(plain(row[name][:200]) for name in ("question", "text", "label", "said"))
            )
        out.show(table)
