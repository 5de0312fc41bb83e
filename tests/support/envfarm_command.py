"""The `envfarm` command as a user runs it, and the processes that it started."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm_cli.process_table import Identity, identify, is_alive

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@dataclass(frozen=True)
class Envfarm:
    """Commands on one state folder."""

    state: Path
    domains: Path = ROOT / "domains"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "envfarm_cli", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, seconds: float = 240) -> Answer:
        process = self.start(*arguments, "--state-dir", str(self.state))
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate(timeout=60)
            raise
        assert "Traceback" not in err, err
        return Answer(process.returncode, out, err)

    def up(self, *arguments: str) -> dict[str, Any]:
        domains = ("--domains", str(self.domains))
        answer = self.run("up", "--engine", "scripted", "--json", *domains, *arguments)
        assert answer.code == 0, answer.err
        return answer.json

    def state_json(self) -> dict[str, Any] | None:
        try:
            return json.loads((self.state / "state.json").read_text())
        except FileNotFoundError:
            return None


def descendants(root: int) -> set[Identity]:
    """All living processes below `root`, itself included."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {identity for pid in found if (identity := identify(pid))}


def none_alive(identities: set[Identity], seconds: float = 10.0) -> bool:
    """Whether all of them are gone within `seconds`."""
    return until(lambda: not any(map(is_alive, identities)), seconds)


def until(true: Callable[[], Any], seconds: float = 60.0) -> bool:
    """Poll until `true()`; False when it takes longer than `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
