"""`envfarm doctor`: is this machine fit to run a stack? Each finding with its remedy."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from envfarm.errors import ConfigError
from envfarm_common.binaries import find_postgres, find_redis
from rich.table import Table

from envfarm_cli import settings
from envfarm_cli.commands_stack import (
    DEFAULT_DOMAINS,
    DEFAULT_STATE,
    DomainsOption,
    JsonOption,
    StateDirOption,
)
from envfarm_cli.output import FAILED, OK, Output, plain
from envfarm_cli.state_dir import StateDir

GOOD, WARNING, BAD = "ok", "warning", "bad"
GIB = 1 << 30
OLDEST_PYTHON = (3, 11)
MARKS = {GOOD: "[green]✓[/green]", WARNING: "[yellow]![/yellow]", BAD: "[red]✗[/red]"}
IMPORT_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `fix` is empty when it is fine."""

    name: str
    state: str
    found: str
    fix: str = ""


def doctor(
    state_dir: StateDirOption = DEFAULT_STATE,
    domains: DomainsOption = DEFAULT_DOMAINS,
    json: JsonOption = False,
) -> int:
    """Look at this machine: Python, compiler, servers, memory, disk, vLLM, torch, ports.

    Each line says what was found and, where it is not good, how to mend it. Nothing is changed.
    Exit code 1 when something would keep the stack from running; warnings do not count.

    Example: [b]envfarm doctor --json | jq '.findings[] | select(.state != "ok")'[/b]
    """
    out = Output(json)
    findings = []
    table = Table("", "what", "found", "remedy")
    imports = {name: _start_import(code) for name, code in IMPORTS.items()}
    try:
        checks: list[Callable[[], Finding]] = [
            python,
            compiler,
            setpriv,
            postgres,
            valkey,
            lambda: shared_memory(Path("/dev/shm")),
            memory,
            lambda: disk(state_dir),
            lambda: left_over(state_dir),
            lambda: domain_folder(domains),
            ports,
            deepspeed,
            lambda: imported("torch", imports["torch"], "run `make setup`"),
            lambda: imported("vllm", imports["vllm"], "run `make setup`"),
        ]
        with out.console.status("looking"):
            findings = [check() for check in checks]
    finally:
        for process in imports.values():
            process.kill()
            process.wait()
    for finding in findings:
        table.add_row(MARKS[finding.state], finding.name, plain(finding.found), plain(finding.fix))
    out.show(table)
    bad = [finding.name for finding in findings if finding.state == BAD]
    out.say("this machine is fit" if not bad else f"not fit yet: {', '.join(bad)}")
    out.result({"ok": not bad, "findings": [asdict(finding) for finding in findings]})
    return FAILED if bad else OK


IMPORTS = {
    "torch": "import torch; print(torch.__version__, torch.get_num_threads(), 'threads,',"
    " torch.cuda.device_count(), 'GPUs')",
    "vllm": "import logging; logging.disable(50); import vllm;"
    " from vllm.platforms import current_platform as p; print(vllm.__version__, 'on', p.device_type)",
}


def python() -> Finding:
    found = sys.version.split()[0]
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", BAD, found, "use Python 3.11 or newer: `make setup PYTHON=…`")
    return Finding("python", GOOD, found)


def compiler() -> Finding:
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name, path=settings.search_path()):
            return Finding("C++ compiler", GOOD, path)
    return Finding(
        "C++ compiler", BAD, "none", "install one, such as g++; DeepSpeed builds its ops with it"
    )


def setpriv() -> Finding:
    path = shutil.which("setpriv", path=settings.search_path())
    if path is None:
        return Finding("setpriv", BAD, "none", "install util-linux 2.33 or later")
    return Finding("setpriv", GOOD, path)


def postgres() -> Finding:
    try:
        binary = find_postgres()
    except ConfigError as error:
        return Finding("PostgreSQL", BAD, error.message, error.hint)
    return Finding("PostgreSQL", GOOD, f"{binary.version} ({binary.source})")


def valkey() -> Finding:
    try:
        binary = find_redis()
    except ConfigError as error:
        return Finding("Valkey", BAD, error.message, error.hint)
    return Finding("Valkey", GOOD, f"{binary.version} ({binary.source})")


def shared_memory(folder: Path) -> Finding:
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Finding(
            "shared memory", WARNING, f"no {folder}", "databases go to disk, which is slower"
        )
    free = shutil.disk_usage(folder).free
    if free < 2 * GIB:
        return Finding(
            "shared memory",
            WARNING,
            f"{free / GIB:.1f} GiB free",
            f"2 GiB are wanted, else databases go to disk; enlarge {folder} (docker: --shm-size)",
        )
    return Finding("shared memory", GOOD, f"{free / GIB:.1f} GiB free")


def memory() -> Finding:
    lines = Path("/proc/meminfo").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    free = kib * 1024 / GIB
    if free < 5:
        return Finding(
            "memory",
            WARNING,
            f"{free:.1f} GiB",
            "5 GiB are wanted with vLLM and learner; free some",
        )
    return Finding("memory", GOOD, f"{free:.1f} GiB available")


def disk(state_dir: Path) -> Finding:
    place = next(
        path for path in (state_dir.absolute(), *state_dir.absolute().parents) if path.exists()
    )
    if not os.access(place, os.W_OK):
        return Finding("disk", BAD, f"{place} is read-only", "choose a folder with --state-dir")
    free = shutil.disk_usage(place).free
    if free < 2 * GIB:
        state = BAD if free < GIB // 2 else WARNING
        return Finding("disk", state, f"{free / GIB:.1f} GiB free", f"free 2 GiB below {place}")
    return Finding("disk", GOOD, f"{free / GIB:.0f} GiB free at {place}")


def left_over(state_dir: Path) -> Finding:
    state = StateDir(state_dir).read()
    if state is None:
        return Finding("stack", GOOD, "none runs here")
    if state.is_live:
        return Finding("stack", GOOD, f"{state.phase}, supervisor {state.supervisor.pid}")
    names = ", ".join(process.name for process in state.left_over()) or "nothing"
    return Finding(
        "stack", WARNING, f"one was killed here; {names} still runs", "run `envfarm down`"
    )


def domain_folder(domains: Path) -> Finding:
    names = sorted(path.parent.name for path in domains.glob("*/world"))
    if not names:
        return Finding(
            "domains", BAD, f"none in {domains}", "run envfarm in its repository, or give --domains"
        )
    return Finding("domains", GOOD, ", ".join(names))


def ports() -> Finding:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen()
            with socket.create_connection(probe.getsockname(), timeout=2):
                pass
    except OSError as error:
        return Finding("ports", BAD, str(error), "this machine must be able to reach 127.0.0.1")
    return Finding("ports", GOOD, "127.0.0.1 can be listened on and reached")


def deepspeed() -> Finding:
    if importlib.util.find_spec("deepspeed") is None:
        return Finding("DeepSpeed", BAD, "not installed", "run `make setup`")
    return Finding("DeepSpeed", GOOD, metadata.version("deepspeed"))


def imported(name: str, process: subprocess.Popen[str], fix: str) -> Finding:
    """Whether a package could really be imported, and what it said of itself."""
    try:
        said, complaint = process.communicate(timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return Finding(name, WARNING, f"no answer within {IMPORT_SECONDS} s", "try again when idle")
    if process.returncode:
        return Finding(name, BAD, (complaint.strip().splitlines() or ["import failed"])[-1], fix)
    return Finding(name, GOOD, said.strip().splitlines()[-1])


def _start_import(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": settings.search_path(), "HOME": settings.home(), "VLLM_NO_USAGE_STATS": "1"},
    )
