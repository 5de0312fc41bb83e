"""`envfarm judge audit`."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from envfarm_common import settings as service_settings
from rich.table import Column, Table

from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, OK, Output, plain
from grader.judge import audit as judge_audit
from grader.judge.judge import Judge
from grader.settings import JudgeSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Look at the judge that answers rubrics.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Look at the judge that answers rubrics."""


@app.command(epilog=EXIT_CODES)
def audit(
    pairs: Annotated[
        Path, typer.Option(help="Labelled pairs (YAML); without it those that come along.")
    ] = judge_audit.OWN_PAIRS,
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
    found = judge_audit.load_pairs(pairs)
    if live:
        found = asyncio.run(_ask(found, url, model, repeat, out))
        if record:
            judge_audit.write_pairs(record, found)
    figures = judge_audit.audit(found)
    _show(figures, out)
    out.result({"ok": True, **asdict(figures)})
    return OK


async def _ask(
    pairs: list[judge_audit.Pair], url: str, model: str, repeat: int, out: Output
) -> list[judge_audit.Pair]:
    given: dict[str, Any] = {k: v for k, v in (("judge_url", url), ("judge_model", model)) if v}

    class WithFlags(JudgeSettings):
        def __init__(self) -> None:
            super().__init__(**given)

    config = service_settings.load(WithFlags)
    if not config.judge_url:
        raise BadInput("no judge is named", hint="give --url and --model")
    judge = Judge(
        config.judge_url,
        config.judge_model,
        api_key=config.judge_api_key.get_secret_value(),
        timeout_seconds=config.judge_timeout_seconds,
    )
    try:
        with out.console.status("asking") as status:
            return await judge_audit.ask_live(
                pairs, judge, repeat, lambda n: status.update(f"asking {n} of {len(pairs)}")
            )
    finally:
        await judge.close()


def _show(figures: judge_audit.Audit, out: Output) -> None:
    out.say(f"[b]judge[/b]      {plain(figures.judge)}")
    out.say(
        f"[b]agreement[/b]  {figures.agreement:.1%} ({figures.agreed} of {figures.answers} answers;"
        f" 95 % interval {figures.agreement_low:.1%} to {figures.agreement_high:.1%};"
        f" {figures.unparsable} neither yes nor no)"
    )
    out.say(
        f"[b]flip rate[/b]  {figures.flip_rate:.1%} ({figures.flipped} of {figures.pairs} pairs)"
    )
    out.say(
        f"[b]sway rate[/b]  {figures.sway_rate:.1%} ({figures.swayed} of {figures.pairs} pairs)"
    )
    if figures.wrong:
        table = Table("question", "text", Column("label", no_wrap=True), "said")
        for row in figures.wrong:
            table.add_row(
                *(plain(row[name][:200]) for name in ("question", "text", "label", "said"))
            )
        out.show(table)
