"""`envfarm up`, `down` and `status`."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from envfarm_cli import interrupts, service_specs, state_dir, supervisor
from envfarm_cli.domain_files import find_domains, linked_domains
from envfarm_cli.failure import BadInput, NotRunning
from envfarm_cli.output import OK, Output, plain
from envfarm_cli.process_table import is_alive
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.state_dir import ProcessRecord, StackState, StateDir

StateDirOption = Annotated[
    Path, typer.Option("--state-dir", help="Folder of the stack's state, logs and secrets.")
]
DomainsOption = Annotated[Path, typer.Option("--domains", help="Folder of domains.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")
]
DEFAULT_STATE = Path(".envfarm")
DEFAULT_DOMAINS = Path("domains")


def up(
    state_dir_: StateDirOption = DEFAULT_STATE,
    domains: DomainsOption = DEFAULT_DOMAINS,
    domain: Annotated[
        list[str] | None, typer.Option(help="Serve only this domain of the folder. Repeatable.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="[b]vllm[/b] samples; [b]scripted[/b] replays golden actions with made-up "
            "log-probabilities, without vLLM; [b]scripted-vllm[/b] replays them and lets vLLM "
            "score every token; [b]none[/b] leaves only the chat endpoint of GATEWAY_CHAT_URL."
        ),
    ] = "vllm",
    model: Annotated[
        Path | None, typer.Option(help="Model folder; without it a tiny model is made once.")
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(help="Fix a port, NAME=NUMBER, such as gateway.http=7001. Repeatable."),
    ] = None,
    learner: Annotated[
        Path | None, typer.Option(help="Also train, with this configuration (TOML).")
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay here; Ctrl-C stops the stack.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Start the stack and leave it running: Valkey, env-server, grader, engine, gateway.

    Ports are free ones and secrets are made at first use; `envfarm status` shows the addresses.
    The first start proves every task, which makes the golden states that verdicts compare with:
    seconds for a small domain, a minute for one of 80 tasks. What was proved stays proved until the
    domain's files change.
    Starting a running stack again changes nothing. Ctrl-C while it starts stops what had started.

    Example: [b]envfarm up --domain orders --engine scripted --port gateway.http=7001[/b]
    """
    out, state = Output(json), StateDir(state_dir_)
    served = _folder(domains, "--domains")
    find_domains(served, domain or [])
    running = state.read()
    if running and running.is_live:
        return _already_running(running, state, out)
    if domain:
        served = linked_domains(state.path / "domains", served, sorted(set(domain)))
    options = StackOptions(
        domains=served,
        engine=engine,  # pyright: ignore[reportArgumentType]
        model=_folder(model, "--model") if model else None,
        ports=service_specs.parse_ports(port or []),
        learner_config=learner.absolute() if learner else None,
    )
    if foreground:
        return _up_here(state, options, out)
    started = supervisor.spawn(state, options)
    try:
        shown: set[str] = set()
        with out.console.status("starting"):
            now = supervisor.wait_until_ready(
                state, started, lambda s: _show_progress(s, shown, out)
            )
    except interrupts.Interrupted:
        with interrupts.final():
            supervisor.stop(started)
            state.sweep()
        raise
    out.say("the stack is up; `envfarm status` shows it, `envfarm down` stops it")
    out.result({"ok": True, **describe(now, state)})
    return OK


def down(state_dir_: StateDirOption = DEFAULT_STATE, json: JsonOption = False) -> int:
    """Stop the stack, and whatever a killed one left behind.

    Everything is stopped in reverse order; data in the state folder stays. It is fine to call
    this when nothing runs.

    Example: [b]envfarm down[/b]
    """
    out, state = Output(json), StateDir(state_dir_)
    now = state.read()
    stopped: list[str] = []
    killed = False
    if now and now.is_live:
        stopped = [process.name for process in now.processes]
        with out.console.status("stopping"):
            killed = not supervisor.stop(now.supervisor)
    swept = state.sweep()
    if stopped:
        out.say(f"stopped: {', '.join(reversed(stopped))}")
    if swept:
        out.say(f"left over by a stack that had been killed, now stopped: {', '.join(swept)}")
    if not stopped and not swept:
        out.say("nothing was running")
    out.result({"ok": True, "stopped": stopped, "swept": swept, "supervisor_killed": killed})
    return OK


def status(state_dir_: StateDirOption = DEFAULT_STATE, json: JsonOption = False) -> int:
    """Show which processes of the stack run, where they answer and where their logs are.

    Exit code 0 when all is well, 1 when a process died or the stack is starting or stopping, 3
    when no stack runs.

    Example: [b]envfarm status --json | jq .phase[/b]
    """
    out, state = Output(json), StateDir(state_dir_)
    now = state.read()
    if now is None or not now.is_live:
        left = [process.name for process in now.left_over()] if now else []
        note = f"; a killed one left {', '.join(left)} running" if left else ""
        failure = NotRunning(
            f"no stack runs in {state.path}{note}",
            hint="`envfarm down` sweeps" if left else "`envfarm up` starts one",
        )
        raise failure
    described = describe(now, state)
    _show_table(described, out)
    if now.message:
        out.say(f"[red]{plain(now.message)}[/red] — {plain(now.hint)}")
    well = now.phase == state_dir.READY and all(
        process["state"] == "running" or process["exit_status"] == 0
        for process in described["processes"]
    )
    out.result({"ok": well, **described})
    return OK if well else 1


def describe(now: StackState, state: StateDir) -> dict[str, Any]:
    """The stack as plain values."""
    return {
        "state_dir": str(state.path),
        "phase": now.phase,
        "doing": now.doing,
        "message": now.message,
        "engine": now.engine,
        "supervisor": now.supervisor.pid,
        "uptime_seconds": round(time.time() - now.started_at, 1),
        "processes": [
            {
                "name": process.name,
                "state": "running" if is_running(process) else "ended",
                "exit_status": process.exit_status,
                "pid": process.pid,
                "http": process.http,
                "grpc": process.grpc,
                "log": process.log,
            }
            for process in now.processes
        ],
    }


def is_running(process: ProcessRecord) -> bool:
    """Looked up anew: state.json lags behind by a moment, and on a full disk by more."""
    return process.exit_status is None and is_alive(process.identity)


def _up_here(state: StateDir, options: StackOptions, out: Output) -> int:
    def on_ready() -> None:
        now = state.read()
        assert now
        out.say("the stack is up; Ctrl-C stops it")
        out.result({"ok": True, **describe(now, state)})

    try:
        supervisor.supervise(state, options, lambda line: out.say(plain(line)), on_ready)
    except Exception:
        state.forget()
        raise
    return OK


def _already_running(running: StackState, state: StateDir, out: Output) -> int:
    if running.phase in (state_dir.READY, state_dir.DEGRADED):
        out.say(f"a stack runs in {plain(state.path)} already; see `envfarm status`")
        out.result({"ok": True, "already_running": True, **describe(running, state)})
        return OK
    raise BadInput(
        f"a stack in {state.path} is {running.phase} just now",
        hint="wait for it, or stop it with `envfarm down`",
    )


def _show_progress(now: StackState, shown: set[str], out: Output) -> None:
    for process in now.processes:
        place = process.http or process.grpc
        if place and process.name not in shown:
            shown.add(process.name)
            out.say(f"[green]●[/green] {process.name:<11} {place}")
    if now.doing and f"doing {now.doing}" not in shown:
        shown.add(f"doing {now.doing}")
        out.say(f"[dim]… {plain(now.doing)}[/dim]")


def _show_table(described: dict[str, Any], out: Output) -> None:
    title = f"{described['phase']}, up {described['uptime_seconds']:.0f} s"
    table = Table(
        "process", "state", "pid", "http", "grpc / tcp", title=title, title_justify="left"
    )
    for process in described["processes"]:
        how = "" if process["exit_status"] is None else f" ({process['exit_status']})"
        state = "running" if process["state"] == "running" else f"[red]ended{how}[/red]"
        table.add_row(process["name"], state, str(process["pid"]), process["http"], process["grpc"])
    out.show(table)
    out.say(f"logs: {plain(described['state_dir'])}/logs")


def _folder(path: Path, option: str) -> Path:
    if not path.is_dir():
        raise BadInput(
            f"{option}: there is no folder {path}",
            hint="run envfarm in its repository, or name another folder",
        )
    return path.absolute()
