"""`envfarm jobs`: the jobs of a gateway."""

import json as json_format
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from envfarm_cli import job_view
from envfarm_cli.commands_parity import SHOWN, recorded_jobs
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import BadInput
from envfarm_cli.jobs_door import JobsDoor
from envfarm_cli.output import EXIT_CODES, FAILED, OK, Output, plain
from envfarm_cli.state_dir import StateDir
from rollout_gateway.replay import Replayed, replay

LINE_SECONDS = 10.0
"""Where nobody sees a screen (a log, a pipe), a line comes this often at most."""
LOOK_SECONDS = 0.5

GatewayOption = Annotated[
    str, typer.Option(help="URL of a gateway; without it the stack of --state-dir is asked.")
]
TokenOption = Annotated[
    str, typer.Option(envvar="ENVFARM_GATEWAY_TOKEN", help="Its infrastructure token.")
]
JobArgument = Annotated[str, typer.Argument(help="Id of the job; see `envfarm jobs list`.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Then follow it until it has ended.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Jobs of the gateway: submit, follow, cancel, resume.",
    rich_markup_mode="rich",
    epilog=EXIT_CODES,
)


@app.command("list", epilog=EXIT_CODES)
def list_(
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """List the gateway's jobs, the newest last: how far each is, and what it waits for.

    Example: [b]envfarm jobs list --json | jq -r '.jobs[].job_id'[/b]
    """
    out = Output(json)
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        jobs = sorted(door.jobs(), key=lambda job: job["submitted_at"])
    if jobs:
        out.show(_table(jobs))
    else:
        out.say("the gateway has no job yet; `envfarm jobs submit --help` shows one")
    out.result({"ok": True, "jobs": jobs})
    return OK


@app.command(epilog=EXIT_CODES)
def show(
    job: JobArgument,
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Show one job at this moment: its groups, its waits, and what each attempt does.

    Example: [b]envfarm jobs show demo-train --json | jq .job.waiting[/b]
    """
    out = Output(json)
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        found, slots = door.job(job), door.slots(job)
    out.show(job_view.screen(found, job_view.Rates(None, None, None, None), slots))
    out.result({"ok": True, "job": found, "slots": slots})
    return OK


@app.command(epilog=EXIT_CODES)
def submit(
    file: Annotated[
        Path,
        typer.Argument(
            help="The job as .json or .toml, fields of SubmitJobRequest; - reads JSON from stdin."
        ),
    ],
    watch_: WatchOption = False,
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Submit a job. The same file again is a no-op; another one under the same id is refused.

    A probe of two tasks, four groups of eight each:
    [b]{"job_id": "p1", "run_id": "p", "kind": "probe", "task_ids": ["orders/refund-damaged",
    "orders/cancel-placed"], "groups_per_task": 4}[/b]. docs/gateway.md lists every field.

    Example: [b]envfarm jobs submit job.toml --watch[/b]
    """
    out, body = Output(json), read_job(file)
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        found = door.submit(body)
        if watch_:
            return _follow(door, found["job_id"], out)
    return _told(out, found)


@app.command(epilog=EXIT_CODES)
def watch(
    job: JobArgument,
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Follow a job until it has ended: progress, rates, time left, what each attempt does.

    Ctrl-C ends the watching and leaves the job alone; a gateway that restarts is found again.
    Without a terminal a line comes every ten seconds. With [b]--json[/b] the last status is printed.
    Exits with 1 when the job was cancelled or failed.

    Example: [b]envfarm jobs watch demo-train[/b]
    """
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        return _follow(door, job, Output(json))


@app.command(epilog=EXIT_CODES)
def cancel(
    job: JobArgument,
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """End a job early: attempts stop, formed groups are still published, all records stay.

    Example: [b]envfarm jobs cancel demo-train[/b]
    """
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        return _told(Output(json), door.cancel(job))


@app.command(epilog=EXIT_CODES)
def resume(
    job: JobArgument,
    watch_: WatchOption = False,
    gateway: GatewayOption = "",
    token: TokenOption = "",
    state_dir: StateDirOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> int:
    """Go on with a cancelled or failed job; attempts with a reward that it has still count.

    Example: [b]envfarm jobs resume demo-train --watch[/b]
    """
    out = Output(json)
    with JobsDoor.find(gateway, token, StateDir(state_dir)) as door:
        found = door.resume(job)
        if watch_:
            return _follow(door, job, out)
    return _told(out, found)


@app.command("replay", epilog=EXIT_CODES)
def replay_(
    runs: Annotated[
        Path, typer.Option(help="Folder of recorded jobs, or one above: a run, a gateway's state.")
    ],
    json: JsonOption = False,
) -> int:
    """Live recorded jobs through again, without any service, and require the same groups.

    The recorded attempts go through the gateway's own state machine: each group must end the same
    way, with the same rewards, and its bytes must come out with the hash that was published. What a
    training job decided on each formed group is decided again. A difference means that this version
    forms groups otherwise than the one that recorded them, or that a record was changed.

    Example: [b]envfarm jobs replay --runs runs/demo[/b]
    """
    out, total = Output(json), list[tuple[str, Replayed]]()
    for folder in recorded_jobs(runs):
        total.append((folder.name, replay(folder)))
    if not total:
        raise BadInput(
            f"--runs: there are no recorded jobs in {runs}",
            hint="name the state folder of a gateway, or a run that was recorded",
        )
    deviations = [one for _, found in total for one in found.deviations]
    for one in deviations[:SHOWN]:
        out.say(f"[red]✗[/red] {plain(one.group_id)}: {plain(one.what)}")
    if len(deviations) > SHOWN:
        out.say(f"  and {len(deviations) - SHOWN} more")
    sums = {
        name: sum(getattr(found, name) for _, found in total)
        for name in ("groups", "attempts", "made_again", "decided_again")
    }
    mark = "[red]✗[/red]" if deviations else "[green]✓[/green]"
    out.say(
        f"{mark} {len(total)} jobs lived through again: {sums['attempts']} attempts, "
        f"{sums['groups']} groups, {sums['made_again']} made again to the byte, "
        f"{sums['decided_again']} decided again, {len(deviations)} differences"
    )
    out.result(
        {
            "ok": not deviations,
            "jobs": [name for name, _ in total],
            **sums,
            "differences": [asdict(one) for one in deviations],
        }
    )
    return FAILED if deviations else OK


def read_job(file: Path) -> dict[str, Any]:
    """The fields of a job; BadInput that says where the file is wrong."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        toml = file.suffix == ".toml"
        found = tomllib.loads(text) if toml else json_format.loads(text)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}", hint="name a file with one job") from error
    except ValueError as error:
        raise BadInput(f"{file}: {error}", hint="write one job, as .json or .toml") from error
    if not isinstance(found, dict):
        raise BadInput(f"{file}: one job is an object with fields", hint="see docs/gateway.md")
    return found


def _told(out: Output, job: dict[str, Any]) -> int:
    out.say(f"[green]✓[/green] {plain(job['job_id'])} is {job_view.state_name(job)}")
    out.result({"ok": True, "job": job})
    return OK


def _follow(door: JobsDoor, job_id: str, out: Output) -> int:
    seen = out.console.is_terminal and not out.as_json
    last = _on_screen(door, job_id, out) if seen else _in_lines(door, job_id, out.say)
    ended = job_view.state_name(last)
    if not seen:
        out.say(f"{plain(job_id)} ended: {ended} {plain(last['message'])}".rstrip())
    out.result({"ok": ended == "done", "job": last})
    return OK if ended == "done" else FAILED


def _on_screen(door: JobsDoor, job_id: str, out: Output) -> dict[str, Any]:
    progress, job, slots = job_view.Progress(), door.job(job_id), list[dict[str, Any]]()
    heard, trouble = time.monotonic(), ""
    # Looks and not events: what attempts do changes while the job's own figures stand still.
    with Live(
        Text("…"), console=out.console, auto_refresh=False, vertical_overflow="ellipsis"
    ) as live:
        while True:
            now = time.monotonic()
            try:
                job, slots = door.job(job_id), door.slots(job_id)
                heard, trouble = now, ""
                progress.add(now, job)
            except httpx.TransportError as error:
                door.require_lately(heard, error)
                slots, trouble = [], str(error)
            live.update(job_view.screen(job, progress.rates(now), slots, trouble), refresh=True)
            if job_view.state_name(job) != job_view.RUNNING:
                return job
            time.sleep(LOOK_SECONDS)


def _in_lines(door: JobsDoor, job_id: str, say: Callable[[str], None]) -> dict[str, Any]:
    progress, job, told = job_view.Progress(), door.job(job_id), 0.0
    for event in door.events(job_id):
        now = time.monotonic()
        if event.kind in ("status", "end"):
            job = event.data
            progress.add(now, job)
        if event.kind == "lost" or (told and now - told < LINE_SECONDS and event.kind != "end"):
            continue
        say(plain(f"{job_id} {job_view.line(job, progress.rates(now))}"))
        told = now
    return job


def _table(jobs: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("job", "kind", "state", "groups", "attempts", "mean reward", "waits for"):
        table.add_column(name)
    for job in jobs:
        total = job["groups_total"]
        table.add_row(
            plain(job["job_id"]),
            job_view.kind_name(job),
            job_view.state_name(job),
            f"{job_view.groups_there(job)}{f' of {total}' if total else ''}",
            str(job["attempts"]),
            f"{job['reward_mean']:.3f}" if job["attempts"] else "–",
            plain(job["waiting_for"] or job["message"]),
        )
    return table
