"""`envfarm import thinkingbox`: another harness's dataset, read and hashed, never executed."""

import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from envfarm.errors import ConfigError
from rich.table import Column, Table

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.commands_stack import JsonOption
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain
from envfarm_cli.thinkingbox import catalogue, hosted_world, server_list
from envfarm_cli.thinkingbox.dataset import Dataset, Hydrated, read_selectors
from envfarm_cli.thinkingbox.hosted_world import Hosting
from envfarm_numbers.benchmarks import Benchmarks, list_of

BENCHMARK_DAY = "2025-10-01T13:00:00Z"
"""The day on which ThinkingBox-Bench v1 plays."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SHOWN = 10
"""Reasons, and test cases that cannot be read, that are shown to people."""

app = typer.Typer(
    no_args_is_help=True,
    help="Read tasks that were written for another harness.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.callback()
def _group() -> None:
    """Read tasks that were written for another harness."""


@app.command(epilog=EXIT_CODES)
def thinkingbox(
    dataset: Annotated[
        Path, typer.Option(help="Folder with agent/, scenario/ and test_case/, or one above it.")
    ],
    servers: Annotated[Path, typer.Option(help="Servers file: name, command or address.")],
    test_list: Annotated[
        list[Path] | None,
        typer.Option(
            "--test-list", help="YAML list of FILE:TEST; all test cases unless given. Repeatable."
        ),
    ] = None,
    agent: Annotated[
        str, typer.Option(help="Agent of the dataset; may be left out where there is one.")
    ] = "",
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder for the catalogue, outside the dataset.")
    ] = None,
    worlds: Annotated[
        Path | None,
        typer.Option(help="Folder for hosted worlds, outside the dataset: domains to serve."),
    ] = None,
    environment: Annotated[
        Path | None,
        typer.Option(help="Virtual environment in which the dataset's servers are installed."),
    ] = None,
    variable: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for every server that is a command. Repeatable."),
    ] = None,
    now: Annotated[
        str, typer.Option(help="The frozen clock of hosted worlds, with its zone.")
    ] = BENCHMARK_DAY,
    list_as: Annotated[
        str, typer.Option("--list-as", help="Also write hashes.json: these tasks by hashes alone.")
    ] = "",
    json: JsonOption = False,
) -> int:
    """Read agents, scenarios and test cases of a ThinkingBox dataset and say what could be hosted.

    Test cases may be Python or YAML. Python files are parsed, never imported or run: what describes
    a test is text in them. Each task is hydrated (init merged into its scenario, history and fixtures
    put in, tags joined) and hashed; the same dataset gives the same hashes on every machine. Without
    --out and --worlds nothing is written. Exit code 1 when a test case cannot be read.

    With --worlds, tasks without obstacles become domains: pin the tools of each once with
    [b]envfarm world pin NAME --domains DIR[/b], then serve DIR. What can be done with them today:
    docs/thinkingbox.md.

    Example: [b]envfarm import thinkingbox --dataset data/dataset --servers data/servers.yaml[/b]
    """
    out, source = Output(json), Dataset(dataset)
    _refuse_inside(source, {"--out": out_dir, "--worlds": worlds})
    hosting = _hosting(now, environment, variable or [])
    if not worlds and (environment or variable):
        raise BadInput("--environment and --variable are for --worlds, which is not given")
    if list_as and not out_dir:
        raise BadInput("--list-as writes into --out, which is not given")
    known = server_list.read(servers)
    with out.console.status("reading test cases"):
        tasks, unreadable = _read(source, _selectors(source, test_list or []), agent)
        listed = catalogue.entries(tasks, known, Benchmarks.known())
    result = _result(listed, unreadable)
    if out_dir and listed:
        result["folder"] = str(out_dir)
        result["hash"] = catalogue.write(out_dir, listed, tasks, known)
        if list_as:
            text = list_of(list_as, listed)
            write_durably(out_dir / "hashes.json", text.encode())
    if worlds and listed:
        with out.console.status("writing worlds"):
            hosted = hosted_world.write(worlds, listed, tasks, known, hosting)
        result["worlds"] = {name: len(ids) for name, ids in hosted.items()}
    _show(listed, result, out)
    _show_worlds(result, worlds, out)
    out.result(result)
    return FAILED if unreadable else OK


def _refuse_inside(source: Dataset, folders: dict[str, Path | None]) -> None:
    for option, folder in folders.items():
        if folder and folder.resolve().is_relative_to(_tree(source.root)):
            raise BadInput(
                f"{folder} lies in the dataset's own tree",
                hint=f"choose a folder of yours with {option}",
            )


def _result(listed: list[dict[str, Any]], unreadable: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "ok": not unreadable,
        "tasks": len(listed),
        "without_obstacles": sum(not entry["obstacles"] for entry in listed),
        "of_benchmarks": dict(Counter(e["benchmark"] for e in listed if e["benchmark"])),
        "needs": dict(Counter(need for entry in listed for need in entry["needs"])),
        "obstacles": dict(Counter(why for entry in listed for why in entry["obstacles"])),
        "unreadable": unreadable,
        "folder": None,
        "hash": None,
        "worlds": None,
    }


def _show_worlds(result: dict[str, Any], folder: Path | None, out: Output) -> None:
    for name, count in (result["worlds"] or {}).items():
        out.say(
            f"{plain(folder)}/{plain(name)}: {count} tasks; pin its tools with "
            f"`envfarm world pin {plain(name)} --domains {plain(folder)}`"
        )


def _hosting(now: str, environment: Path | None, variables: list[str]) -> Hosting:
    """BadInput for what cannot be in a world.yaml."""
    try:
        has_zone = datetime.fromisoformat(now).tzinfo is not None
    except ValueError:
        has_zone = False
    if not has_zone:
        raise BadInput(f"{now!r} is no time with a zone", hint=f"write it as {BENCHMARK_DAY}")
    if environment and not (environment / "bin" / "python").exists():
        raise BadInput(f"{environment} is no virtual environment: it has no bin/python")
    pairs = {item.partition("=")[0]: item.partition("=")[2] for item in variables}
    if wrong := next((name for name in pairs if not _VARIABLE.fullmatch(name)), None):
        raise BadInput(f"{wrong!r} is no name of a variable", hint="write NAME=VALUE")
    return Hosting(now, environment, pairs)


def _selectors(source: Dataset, lists: list[Path]) -> list[str]:
    if not lists:
        return source.selectors()
    return list(dict.fromkeys(item for path in lists for item in read_selectors(path)))


def _read(
    source: Dataset, selectors: list[str], agent: str
) -> tuple[list[Hydrated], list[dict[str, str]]]:
    """Hydrated tasks, and those that cannot be with the reason; BadInput when the agent is unclear."""
    agents = source.agents()
    if not agent and len(agents) != 1:
        raise BadInput(
            f"the dataset has {len(agents)} agents: {', '.join(agents) or 'none'}",
            hint="choose one with --agent",
        )
    chosen = source.agent(agent or agents[0])
    tasks, unreadable = [], []
    for selector in selectors:
        try:
            tasks.append(source.hydrate(selector, chosen))
        except ConfigError as error:
            unreadable.append({"uid": selector, "reason": error.message})
    return tasks, unreadable


def _tree(root: Path) -> Path:
    """The checkout that a dataset lies in, else the dataset's own folder."""
    place = root.resolve()
    return next((path for path in (place, *place.parents) if (path / ".git").exists()), place)


def _show(listed: list[dict[str, Any]], result: dict[str, Any], out: Output) -> None:
    rows = Counter((entry["uid"].partition(":")[0], not entry["obstacles"]) for entry in listed)
    table = Table(
        "test file",
        Column("tasks", justify="right"),
        Column("without obstacles", justify="right"),
    )
    for name in sorted({name for name, _ in rows}):
        free, held = rows[name, True], rows[name, False]
        table.add_row(plain(name), str(free + held), str(free))
    out.show(table)
    for reason, count in Counter(result["obstacles"]).most_common(SHOWN):
        out.say(f"[yellow]![/yellow] {count} × {plain(reason)}")
    for item in result["unreadable"][:SHOWN]:
        out.say(f"[red]✗[/red] {plain(item['uid'])}: {plain(item['reason'])}")
    for name, count in result["of_benchmarks"].items():
        out.say(f"{count} tasks of {plain(name)}: for evaluation only, training refuses them")
    where = plain(result["folder"]) if result["folder"] else "no catalogue was written; give --out"
    out.say(
        f"{result['tasks']} tasks read, {result['without_obstacles']} without obstacles, "
        f"{len(result['unreadable'])} unreadable; {where}"
    )
