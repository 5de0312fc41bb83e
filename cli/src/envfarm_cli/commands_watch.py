"""`envfarm watch`: a local Prometheus with our rules beside a running stack."""

import json as json_format
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import httpx
import typer
from envfarm_common.binaries import child_command

from envfarm_cli import settings
from envfarm_cli.commands_stack import DEFAULT_STATE, JsonOption, StateDirOption
from envfarm_cli.failure import BadInput, Failure, NotRunning
from envfarm_cli.output import Output, plain
from envfarm_cli.scraping import JOBS, missed, targets
from envfarm_cli.service_specs import refuse_taken
from envfarm_cli.state_dir import StackState, StateDir

RULES = Path("deploy/prometheus")
START_SECONDS = 120
LOOK_SECONDS = 1.0


def watch(
    state_dir: StateDirOption = DEFAULT_STATE,
    prometheus: Annotated[
        Path | None,
        typer.Option(
            envvar="ENVFARM_PROMETHEUS", help="The program; without it the one on the PATH."
        ),
    ] = None,
    rules: Annotated[Path, typer.Option(help="Folder with prometheus.yml and alerts.yml.")] = RULES,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 9090,
    json: JsonOption = False,
) -> int:
    """Run a Prometheus with envfarm's rules beside the running stack; Ctrl-C ends it.

    It scrapes every process of the stack, follows processes that come and go, and evaluates the
    alerts. Grafana reads it through deploy/grafana; `envfarm top` needs neither.

    Example: [b]envfarm watch --port 9091[/b]
    """
    out, state = Output(json), StateDir(state_dir)
    program = _program(prometheus)
    if not (rules / "prometheus.yml").is_file():
        raise BadInput(
            f"--rules: there is no prometheus.yml in {rules}",
            hint="run envfarm in its repository, or name the folder",
        )
    _running(state)
    refuse_taken(port, "Prometheus")
    folder = _prepare(state, rules)
    child = _start(program, folder, port)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(child, url, folder)
        out.say(f"Prometheus answers at {url}; alerts at {url}/alerts. Ctrl-C ends it")
        out.result({"ok": True, "url": url, "pid": child.pid})
        while child.poll() is None:
            _write_targets(folder, _running(state))
            time.sleep(LOOK_SECONDS)
        raise Failure(
            f"Prometheus ended (exit status {child.returncode})",
            hint=f"read {plain(folder / 'prometheus.log')}",
        )
    finally:
        child.terminate()
        child.wait(START_SECONDS)


def _program(given: Path | None) -> Path:
    found = shutil.which(str(given or "prometheus"), path=settings.search_path())
    if found is None:
        raise BadInput(
            f"there is no program {given}" if given else "there is no prometheus on the PATH",
            hint="install your system's package `prometheus`, or name it with --prometheus or "
            "ENVFARM_PROMETHEUS",
        )
    return Path(found)


def _running(state: StateDir) -> StackState:
    now = state.read()
    if now is None or not now.is_live:
        raise NotRunning(f"no stack runs in {state.path}", hint="`envfarm up` starts one")
    return now


def _prepare(state: StateDir, rules: Path) -> Path:
    folder = state.path / "prometheus"
    (folder / "targets").mkdir(parents=True, exist_ok=True)
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copyfile(rules / name, folder / name)
    _write_targets(folder, _running(state))
    return folder


def _write_targets(folder: Path, now: StackState) -> None:
    """Who runs is scraped. Who died stays missed; who ended in order, or is not there, does not."""
    urls, died = targets(now), missed(now)
    for job in set(JOBS.values()) - died:
        path = folder / "targets" / f"{job}.json"
        places = [{"targets": [urlsplit(urls[job]).netloc]}] if job in urls else []
        text = json_format.dumps(places)
        if not path.is_file() or path.read_text() != text:
            # Prometheus watches the folder and must not read half a file.
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            temporary.write_text(text)
            temporary.replace(path)


def _start(program: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    argv = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=7d",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen(
            child_command(argv, death=signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": settings.search_path(), "LANG": "C.UTF-8"},
            start_new_session=True,
        )


def _wait_until_ready(child: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(timeout=1, trust_env=False) as client:
        while child.poll() is None and time.monotonic() < deadline:
            try:
                if client.get(f"{url}/-/ready").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
    raise Failure("Prometheus did not start", hint=f"read {plain(folder / 'prometheus.log')}")
