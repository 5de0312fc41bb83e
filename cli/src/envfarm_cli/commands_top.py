"""`envfarm top`: the throughput screen in the terminal."""

import time
from typing import Annotated

import httpx
import typer
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import NotRunning
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.scraping import scrape, targets
from envfarm_cli.state_dir import StateDir
from envfarm_watch.scrape import Interval
from envfarm_watch.top import Top

SCRAPE_SECONDS = 2.0
NOTHING = "[dim]–[/dim]"


def top(
    state_dir: StateDirOption = DEFAULT_STATE,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One interval, then end.")] = False,
    json: JsonOption = False,
) -> int:
    """Show what the running stack produces, and what becomes of it; Ctrl-C ends it.

    The figures are those of the throughput dashboard, read from the processes themselves, so no
    Prometheus is needed. Rates are a second over the last interval. With [b]--json[/b] one interval
    is printed as an object; a figure that no process told is null.

    Example: [b]envfarm top --every 5[/b]
    """
    out, state = Output(json), StateDir(state_dir)
    with httpx.Client(timeout=SCRAPE_SECONDS, trust_env=False) as client:
        before, _ = scrape(client, _targets(state))
        if json or once:
            time.sleep(every)
            after, silent = scrape(client, _targets(state))
            figures = Top.of(Interval(before, after))
            out.show(screen(figures, silent))
            out.result({**figures.to_json(), "silent": silent})
            return OK
        with Live(Text("looking…"), console=out.console, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                after, silent = scrape(client, _targets(state))
                live.update(screen(Top.of(Interval(before, after)), silent), refresh=True)
                before = after


def screen(top: Top, silent: list[str]) -> RenderableType:
    """One interval as people read it."""
    flow = Table("a second", "produced", "graded", "consumed", "effective", title_justify="left")
    flow.title = f"over {top.seconds:.1f} s"
    flow.add_row(
        "episodes",
        *_cells(top.episodes_opened, top.episodes_graded, top.episodes_taken, top.episodes_trained),
    )
    flow.add_row(
        "groups",
        *_cells(top.groups_ended, top.groups_published, top.groups_taken, top.groups_trained),
    )
    flow.add_row(
        "tokens",
        *_cells(top.tokens_sampled, top.tokens_graded, top.tokens_taken, top.tokens_trained),
    )
    parts: list[RenderableType] = [
        flow,
        Columns(
            [
                _table("in flight", top.in_flight, "{:.0f}"),
                _table("groups, by outcome", top.groups_by_outcome, "{:.2f}/s"),
                _table("excused, by status", top.excused_by_status, "{:.2f}/s"),
                _table("farm", _farm(top), "{:g}"),
                _table("learning", _learning(top), "{:.4g}"),
            ],
            padding=(0, 2),
        ),
    ]
    if top.learner_phase:
        parts.append(Text(f"the learner is at: {top.learner_phase}"))
    if silent:
        parts.append(Text.from_markup(f"[red]no answer: {plain(', '.join(silent))}[/red]"))
    return Group(*parts)


def _farm(top: Top) -> dict[str, float | None]:
    return {
        "live episodes": top.live_episodes,
        "ready slots": top.ready_slots,
        "opens that wait for one": top.opens_waiting,
        "undelivered groups": top.undelivered_groups,
        "running in engines": top.engine_running,
        "refused opens / s": top.refused_opens,
        "leaked": top.leaked,
        "ms a call": None if top.call_seconds is None else round(top.call_seconds * 1000, 2),
        "ms a verdict": None if top.grade_seconds is None else round(top.grade_seconds * 1000, 2),
    }


def _learning(top: Top) -> dict[str, float | None]:
    return {
        "reward": top.reward_mean,
        "zero-variance share": top.zero_variance_share,
        "mismatch, nats": top.mismatch_gap,
        "version in service": top.version_in_service,
        "version published": top.version_published,
    }


def _table(title: str, values: dict[str, float] | dict[str, float | None], form: str) -> Table:
    table = Table(title, "", box=None, header_style="bold")
    for name, value in values.items():
        table.add_row(plain(name), NOTHING if value is None else form.format(value))
    return table


def _cells(*values: float | None) -> list[str]:
    return [NOTHING if value is None else f"{value:.1f}" for value in values]


def _targets(state: StateDir) -> dict[str, str]:
    now = state.read()
    if now is None or not now.is_live:
        raise NotRunning(f"no stack runs in {state.path}", hint="`envfarm up` starts one")
    return targets(now)
