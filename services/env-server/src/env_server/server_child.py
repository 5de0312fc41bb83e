"""The process of a server as its owner sees it: one that we started, or one forked for us."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from typing import IO, Protocol


class ServerChild(Protocol):
    """A process in a group of its own with three pipes; it stays unburied until `bury`, so that its
    number cannot be another's."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """As subprocess tells how it ended; None while it runs."""
        ...

    def watch(self, exited: Callable[[], None]) -> None:
        """Call `exited` once when it has ended, even where a child of it keeps its pipes open."""
        ...

    def unwatch(self) -> None:
        """A second time is fine."""
        ...

    async def bury(self, seconds: float) -> None:
        """Wait for the end of a process that was killed, but no longer."""
        ...


def kill_group(child: ServerChild) -> None:
    """SIGKILL to the process and its group; nothing once it has ended."""
    if child.poll() is None:
        for kill in (os.killpg, os.kill):
            # A process that was just forked may have no group of its own yet.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child.pid, signal.SIGKILL)


class StartedChild:
    """A process that we started."""

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self._process = process
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._handle = -1

    def poll(self) -> int | None:
        return self._process.poll()

    def watch(self, exited: Callable[[], None]) -> None:
        self._exited = exited
        self._loop = asyncio.get_running_loop()
        self._handle = os.pidfd_open(self.pid)
        self._loop.add_reader(self._handle, self._told)

    def unwatch(self) -> None:
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    async def bury(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, seconds)

    def _told(self) -> None:
        if self.poll() is not None:
            self.unwatch()
            self._exited()
