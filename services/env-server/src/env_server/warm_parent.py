"""A server's program kept warm: started once, it forks a process for each episode.

What its sessions share is what the program imported; account, limits, group and environment are each
session's own. Programs that cannot be forked are found out at their first start.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from envfarm.errors import ForeignServerError
from envfarm_common import logging

from env_server.server_child import ServerChild, kill_group
from env_server.server_place import Place

log = logging.get(__name__)

FORK_SECONDS = 10.0
MAX_MESSAGE = 1 << 20
KEPT_WORDS = 500


class NotForkable(Exception):
    """Says why a program cannot be kept warm; it is then started anew for each episode."""


class ForkedChild:
    """One session's process, whose parent is the warm one."""

    def __init__(self, parent: "WarmParent", pid: int, pipes: Sequence[IO[bytes]]):
        self._parent = parent
        self.pid = pid
        self.stdin: IO[bytes] | None = pipes[0]
        self.stdout: IO[bytes] | None = pipes[1]
        self.stderr: IO[bytes] | None = pipes[2]
        self._exited: Callable[[], None] | None = None
        self._code: int | None = None
        self._gone = asyncio.Event()

    def poll(self) -> int | None:
        return self._code

    def watch(self, exited: Callable[[], None]) -> None:
        self._exited = exited
        if self._code is not None:
            exited()

    def unwatch(self) -> None:
        self._exited = None

    async def bury(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        self._parent.bury(self)

    def end(self, code: int) -> None:
        """It has ended, as its parent tells."""
        if self._code is None:
            self._code = code
            self._gone.set()
            if self._exited:
                self._exited()


class WarmParent:
    """Made by `start`. `is_alive` until its process has gone, and every session with it."""

    def __init__(self, name: str, place: Place, child: ServerChild, control: socket.socket):
        self._name, self.place, self._child, self._control = name, place, child, control
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._next = 0
        self._sessions: dict[int, ForkedChild] = {}
        self._early: dict[int, int] = {}
        """Ends that were told before their session was known here."""
        self.is_alive = True
        control.setblocking(False)
        self._loop.add_reader(control, self._read)
        self._said = b""
        assert child.stdout
        self._output = child.stdout
        os.set_blocking(self._output.fileno(), False)
        self._loop.add_reader(self._output, self._listen)

    async def ready(self, seconds: float) -> None:
        """NotForkable when it does not get as far as an event loop in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready
        except TimeoutError:
            raise NotForkable(f"it started no event loop within {seconds:g} s") from None

    async def fork(
        self, environment: Mapping[str, str], limits: Mapping[str, int], place: Place
    ) -> ForkedChild:
        """ForeignServerError when there is no session."""
        mine, its = _pipes()
        self._next += 1
        number, answer = self._next, self._loop.create_future()
        self._asked[number] = answer
        asked = {
            "id": number,
            "environment": dict(environment),
            "limits": dict(limits),
            "account": place.ids,
        }
        try:
            socket.send_fds(self._control, [json.dumps(asked).encode()], its)
            async with asyncio.timeout(FORK_SECONDS):
                pid = await answer
        except (OSError, TimeoutError) as error:
            for pipe in mine:
                pipe.close()
            raise ForeignServerError(f"server {self._name} cannot be forked: {error}") from error
        finally:
            self._asked.pop(number, None)
            for end in its:
                os.close(end)
        child = self._sessions[pid] = ForkedChild(self, pid, mine)
        if pid in self._early:
            child.end(self._early.pop(pid))
        return child

    def bury(self, child: ForkedChild) -> None:
        """Nobody needs its number any more; a second time is fine."""
        if self._sessions.pop(child.pid, None) and self.is_alive:
            with contextlib.suppress(OSError):
                self._control.send(json.dumps({"bury": child.pid}).encode())

    def last_words(self) -> str:
        """Of the program before it was warm."""
        return self._said.decode(errors="replace")

    async def end(self) -> None:
        """End it, and with it all its sessions; a second time is fine."""
        self._stop()
        await asyncio.to_thread(self.place.release)

    def close(self) -> None:
        """The same, but it blocks."""
        self._stop()
        self.place.release()

    def _stop(self) -> None:
        self._lose("it was ended")
        kill_group(self._child)
        self._output.close()

    def _listen(self) -> None:
        try:
            found = os.read(self._output.fileno(), 4096)
        except BlockingIOError:
            return
        self._said = (self._said + found)[-KEPT_WORDS:]
        if not found:
            self._loop.remove_reader(self._output)

    def _read(self) -> None:
        while self.is_alive:
            try:
                data = self._control.recv(MAX_MESSAGE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._lose("it ended before its first event loop")
                return
            self._told(json.loads(data))

    def _told(self, message: dict[str, Any]) -> None:
        match message:
            case {"ready": True}:
                self._ready.set_result(None)
            case {"threads": int(threads)}:
                self._lose(f"it has {threads} threads before its first event loop")
            case {"id": int(number), "pid": int(pid)}:
                if number in self._asked and not self._asked[number].done():
                    self._asked[number].set_result(pid)
                else:
                    # Nobody waits any more; its account or mark finds what it may have started.
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
            case {"exited": int(pid), "code": int(code)}:
                if pid in self._sessions:
                    self._sessions[pid].end(code)
                else:
                    self._early[pid] = code
            case _:
                log.warning("a warm server says what nobody understands", server=self._name)

    def _lose(self, why: str) -> None:
        if not self.is_alive:
            return
        self.is_alive = False
        self._loop.remove_reader(self._control)
        self._control.close()
        self._listen()
        self._loop.remove_reader(self._output)
        if not self._ready.done():
            self._ready.set_exception(NotForkable(why))
            # Nobody may wait any more.
            self._ready.exception()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(OSError(why))
        # The kernel ends every session with its parent.
        for session in list(self._sessions.values()):
            session.end(-signal.SIGKILL)


def _pipes() -> tuple[list[IO[bytes]], list[int]]:
    """stdin, stdout and stderr: our ends as files, the session's as numbers."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    read_error, write_error = os.pipe()
    ours: list[IO[bytes]] = [
        os.fdopen(write_in, "wb", 0),
        os.fdopen(read_out, "rb", 0),
        os.fdopen(read_error, "rb", 0),
    ]
    return ours, [read_in, write_out, write_error]
