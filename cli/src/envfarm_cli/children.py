"""Child processes that never outlive us: own process group, explicit environment, a log file.

The kernel sends a child SIGTERM when we die, however that happens; `ChildSet` stops them in
reverse order when its block ends, however that happens.
"""

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envfarm_common.binaries import child_command

from envfarm_cli import interrupts
from envfarm_cli.failure import BadInput, ChildFailed
from envfarm_cli.process_table import Identity, end_group, identify

LITTLE_ROOM = 1 << 20
"""Bytes; with less on its disk a log may lack the line that matters."""


@dataclass(slots=True)
class Child:
    """One started process."""

    name: str
    process: subprocess.Popen[bytes]
    identity: Identity
    log: Path
    ready_file: Path | None
    facts: dict[str, Any] = field(default_factory=dict)
    """What its ready file said: pid, http, grpc."""

    @property
    def exit_status(self) -> int | None:
        return self.process.poll()

    def last_words(self) -> str:
        """The line of its log that says why it ended."""
        return last_words(self.log)

    def stop(self, grace_seconds: float = 20.0) -> None:
        """End the whole group; fine when it has ended already."""
        with interrupts.final():
            if self.process.poll() is None:
                self.process.terminate()
                try:
                    self.process.wait(grace_seconds)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
            end_group(self.identity, grace_seconds=2.0)


class ChildSet:
    """The children of one block, stopped in reverse order at its end."""

    def __init__(self, on_change: Callable[[], None] | None = None):
        self.children: list[Child] = []
        self._on_change = on_change or (lambda: None)

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        env: dict[str, str],
        log: Path,
        ready_file: Path | None = None,
        cwd: Path | None = None,
    ) -> Child:
        """Start `argv`; BadInput when the program or the log cannot be used."""
        if ready_file:
            ready_file.unlink(missing_ok=True)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with interrupts.held(), log.open("wb") as output:
                process = subprocess.Popen(
                    child_command(argv, death=signal.SIGTERM),
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                identity = identify(process.pid) or Identity(process.pid, 0)
                child = Child(name, process, identity, log, ready_file)
                self.children.append(child)
                self._on_change()
        except OSError as error:
            raise BadInput(f"{name} cannot be started: {error}") from error
        return child

    def adopt(self, name: str, process: subprocess.Popen[bytes], log: Path) -> Child:
        """Take over a process that was started elsewhere, in a session of its own."""
        identity = identify(process.pid) or Identity(process.pid, 0)
        child = Child(name, process, identity, log, None)
        self.children.append(child)
        self._on_change()
        return child

    def wait_ready(
        self,
        child: Child,
        seconds: float,
        *,
        probe: Callable[[], dict[str, Any] | None] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Wait for the ready file, or for `probe` to give facts.

        Raises ChildFailed with the child's last words when it ends, or when `seconds` pass.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            facts = probe() if probe else _read_ready(child.ready_file)
            if facts is not None:
                child.facts = facts
                if facts.get("http") and not facts["http"].startswith("http"):
                    facts["http"] = f"http://{facts['http']}"
                self._on_change()
                return facts
            if child.exit_status is not None:
                raise died(child, "while starting")
            if tick:
                tick()
            time.sleep(0.05)
        raise ChildFailed(
            f"{child.name} was not ready after {seconds:.0f} s: {child.last_words()}",
            hint=no_room(child.log) or f"read {child.log}",
        )

    def wait_end(self, child: Child, tick: Callable[[], None] | None = None) -> int:
        """Wait until it ends by itself; its exit status."""
        while child.exit_status is None:
            if tick:
                tick()
            time.sleep(0.05)
        self.forget(child)
        return child.process.returncode

    def forget(self, child: Child) -> None:
        """Stop it if it lives, and drop it from the set."""
        child.stop()
        if child in self.children:
            self.children.remove(child)
            self._on_change()

    def stop(self) -> None:
        with interrupts.final():
            for child in reversed(list(self.children)):
                child.stop()
                self.children.remove(child)
                self._on_change()

    def __enter__(self) -> "ChildSet":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def died(child: Child, when: str) -> ChildFailed:
    """What to say of a child that has ended; one that was killed had no last words."""
    status = child.exit_status
    if status is not None and status < 0:
        message = f"{child.name} ended {when}: killed by {signal.Signals(-status).name}"
    else:
        message = f"{child.name} ended {when} (exit status {status}): {child.last_words()}"
    return ChildFailed(message, hint=no_room(child.log) or f"read {child.log}")


def no_room(log: Path) -> str:
    """What to do when the disk of a log is full, so that the log may not say why a process ended."""
    try:
        free = shutil.disk_usage(log.parent).free
    except OSError:
        return ""
    if free >= LITTLE_ROOM:
        return ""
    return f"free some room on the disk of {log.parent}, which has {free // 1024} KiB left"


def last_words(log: Path, limit: int = 400) -> str:
    """The last error line of a log, else its last line; JSON lines give their message."""
    try:
        with log.open("rb") as source:
            source.seek(0, 2)
            source.seek(max(0, source.tell() - 65536))
            lines = source.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"no log: {error}"
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        return "it said nothing"
    ours = [line for line in lines if line.startswith("error: ")]
    foreign = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    chosen = (ours or foreign or lines)[-1].removeprefix("error: ")
    if chosen.startswith("{"):
        try:
            chosen = str(json.loads(chosen).get("message", chosen))
        except ValueError:
            pass
    return chosen if len(chosen) <= limit else chosen[: limit - 1] + "…"


def _read_ready(path: Path | None) -> dict[str, Any] | None:
    if path is None or not path.exists():
        return None
    return json.loads(path.read_text())
