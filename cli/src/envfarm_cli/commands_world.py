"""`envfarm world check`, `pin` and `shell`: a domain's world before there are tasks to prove."""

import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from envfarm.errors import BrokenWorld, ConfigError
from envfarm_common import logging
from rich.table import Table

from env_server import backend, server_pins, world_check
from env_server.server_file import PINS, pins_text
from env_server.server_room import ServerRoom
from env_server.settings import Settings
from env_server.world import World, load_world
from envfarm_cli import loops
from envfarm_cli.authoring.examiner import examiner
from envfarm_cli.authoring.server_apart import server_apart
from envfarm_cli.authoring.world_shell import WorldShell
from envfarm_cli.campaign.files import write_durably
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.domain_files import find_task, find_tasks, read_yaml
from envfarm_cli.failure import BadInput
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir

CONNECTIONS = 80
MARKS = {"ok": "[green]✓[/green]", "fails": "[red]✗[/red]", "note": "[dim]·[/dim]"}

app = typer.Typer(
    no_args_is_help=True,
    help="Look into the worlds of the domains, and check that they keep their promises.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.command(epilog=EXIT_CODES)
def check(
    names: Annotated[
        list[str] | None, typer.Argument(help="Domains; all of them unless given.")
    ] = None,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Build each world twice on a Postgres of its own and check what every episode leans on.

    Primary keys, types and triggers; rows that are the same in every build; no real clock and no
    dice; READ tools that answer by content whatever the physical order of rows; and the golden
    calls of all tasks, with guessed calls of every tool, played on copies of two builds and on
    rows in another order: same answers, byte for byte, and the same end.

    Example: [b]envfarm world check orders[/b]
    """
    out, chosen = Output(json), _domains(domains, names or [])
    logging.configure("world", "error")
    results: dict[str, list[world_check.Found]] = {}
    with state_apart(StateDir(state_dir), "world") as apart:
        for name in chosen:
            with out.console.status(f"checking {plain(name)}"):
                results[name] = loops.run(_check(domains.absolute(), name, apart))
            _show(name, results[name], out)
    failed = [
        name for name, found in results.items() if any(item.outcome == "fails" for item in found)
    ]
    out.say(f"{len(chosen) - len(failed)} of {len(chosen)} worlds keep their promises")
    worlds = {name: [asdict(item) for item in found] for name, found in results.items()}
    out.result({"ok": not failed, "worlds": worlds})
    return FAILED if failed else OK


@app.command(epilog=EXIT_CODES)
def pin(
    name: Annotated[str, typer.Argument(help="A domain whose world.yaml has servers.")],
    is_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 when the file would change.")
    ] = False,
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Start the MCP servers of a world once and pin the tools that they offer.

    The names, descriptions and schemas go into world/servers.json, which is part of the world's hash:
    read it before you commit it, as it is what a model will read. An episode does not open when a
    server offers its tools otherwise than pinned.

    Example: [b]envfarm world pin depot[/b]
    """
    out = Output(json)
    logging.configure("world", "error")
    _domains(domains, [name])
    world = load_world(domains.absolute() / name / "world", is_pinned=False)
    if not world.servers:
        raise BadInput(f"the world of {name} has no servers", hint="see docs/thinkingbox.md")
    with state_apart(StateDir(state_dir), "world") as apart:
        with out.console.status("starting the servers"):
            text = loops.run(_pins(world, _settings(domains, apart), apart))
    path = world.folder / PINS
    is_changed = not path.exists() or path.read_text() != text
    if is_changed and not is_check:
        write_durably(path, text.encode())
    state = "as it was" if not is_changed else "would change" if is_check else "written"
    out.say(f"{plain(path)}: {state}")
    out.result({"ok": not (is_check and is_changed), "file": str(path), "changed": is_changed})
    return FAILED if is_check and is_changed else OK


async def _pins(world: World, settings: Settings, apart: StateDir) -> str:
    room = ServerRoom(apart.path / "servers", settings.account_numbers(), settings.server_starts)
    try:
        source = backend.choose(settings, server_pins.CONNECTIONS, gives_dsns=True)
        return pins_text(await server_pins.ask(world, room, source))
    finally:
        room.close()


@app.command(epilog=EXIT_CODES)
def shell(
    what: Annotated[str, typer.Argument(help="A domain, or a task id.")],
    domains: DomainsOption = DEFAULT_DOMAINS,
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Open a fresh episode and look into it: SQL on its database, its tools over MCP.

    Lines may come from a pipe; [b]\\?[/b] lists the commands, among them [b]\\psql[/b], [b]\\call[/b] and
    [b]\\diff[/b]. Nothing of it outlives the command. Exit status 1 when a line was refused.

    Example: [b]envfarm world shell orders[/b]
    """
    out = Output(json)
    logging.configure("world", "error")
    if "/" in what:
        task_id = find_task(domains, what).task_id
    else:
        tasks = find_tasks(domains, what)
        if not tasks:
            raise BadInput(
                f"{what} has no task to open an episode on",
                hint=f"write one with `envfarm tasks new {what}/SLUG`",
            )
        task_id = tasks[0].task_id
    state = StateDir(state_dir)
    with state_apart(state, "postgres") as apart, loops.Runner() as runner:
        source = backend.choose(_settings(domains, apart), CONNECTIONS)
        with out.console.status("starting a Postgres"):
            conninfo = runner.run(source.start())
        try:
            refused, lines = _converse(state, domains, task_id, conninfo, runner, out)
        finally:
            runner.run(source.stop())
    out.result({"ok": not refused, "task": task_id, "lines": lines, "refused": refused})
    return FAILED if refused else OK


def _converse(
    state: StateDir,
    domains: Path,
    task_id: str,
    conninfo: str,
    runner: loops.Runner,
    out: Output,
) -> tuple[int, int]:
    """Lines that were refused, and all lines."""
    own = {
        "ENV_SERVER_BACKEND": "server",
        "ENV_SERVER_DSN": conninfo,
        # One database at a time, so that it is known whose it is.
        "ENV_SERVER_READY_LOW": "0",
        "ENV_SERVER_READY_HIGH": "1",
        "ENV_SERVER_MAX_EPISODES": "1",
        "ENV_SERVER_KEEPERS": "2",
    }
    only = [task_id.partition("/")[0]]
    with server_apart(state, "shell", domains, out, only=only, env_settings=own) as server:
        making = examiner(server, at_once=1)
        examining = runner.run(making.__aenter__())
        try:
            task = runner.run(examining.tasks())[task_id]
            shell = WorldShell(out, runner, examining, task, conninfo)
            shell.run()
            return shell.failures, shell.lines
        finally:
            runner.run(making.__aexit__(None, None, None))


async def _check(domains: Path, name: str, apart: StateDir) -> list[world_check.Found]:
    try:
        world = load_world(domains / name / "world")
    except (ConfigError, BrokenWorld) as error:
        return [world_check.Found("files", "fails", error.message)]
    source = backend.choose(_settings(domains, apart), CONNECTIONS)
    return await world_check.check(source, world, _runs(domains, name), apart.path / "files")


def _runs(domains: Path, name: str) -> dict[str, list[world_check.Call]]:
    """The golden runs of a domain; a private file that cannot be read is left to `tasks validate`."""
    runs = {}
    for files in find_tasks(domains, name):
        if files.private.exists():
            golden: dict[str, Any] = read_yaml(files.private).get("golden") or {}
            runs[files.task_id] = [
                (str(call.get("tool")), call.get("arguments") or {})
                for call in golden.get("actions") or []
            ]
    return runs


def _settings(domains: Path, apart: StateDir) -> Settings:
    given: dict[str, Any] = {
        "domains_dir": domains,
        "infra_token": secrets.token_urlsafe(24),
        "grader_token": secrets.token_urlsafe(24),
        "state_dir": apart.path / "env-server",
    }
    return Settings(**given)


def _domains(domains: Path, names: list[str]) -> list[str]:
    known = sorted(path.parent.name for path in domains.glob("*/world"))
    for name in names:
        if name not in known:
            raise BadInput(
                f"there is no domain {name!r} in {domains}",
                hint=f"domains are: {', '.join(known) or 'none'}",
            )
    if not known:
        raise BadInput(f"there are no domains in {domains}", hint="give --domains")
    return names or known


def _show(name: str, found: list[world_check.Found], out: Output) -> None:
    table = Table.grid(padding=(0, 2))
    for item in found:
        table.add_row(MARKS[item.outcome], item.check, plain(item.told))
    out.say(f"[b]{plain(name)}[/b]")
    out.show(table)
