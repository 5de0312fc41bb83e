"""One server process of one episode: started without a shell, or forked from a warm parent, in a
process group of its own, with limits that the kernel enforces and an environment that holds nothing of
ours; ended for certain.

The official client's own stdio transport starts a process, too, but neither tells its id nor limits it,
and is patient when it ends one. And nothing may fork once gRPC runs: handlers that it has for a fork
crash the child before it is another program. subprocess.Popen uses vfork, which calls none; the event
loop's own way of starting a process does fork.
"""

import asyncio
import contextlib
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from envfarm.errors import ForeignServerError
from envfarm_common import logging
from envfarm_common.binaries import child_command
from mcp.client import Transport
from mcp.shared.message import SessionMessage

from env_server.cancel import cancel_all
from env_server.pipe_end import PipeEnd
from env_server.server_child import ServerChild, StartedChild, kill_group
from env_server.server_command import (
    environment_of,
    folder_of,
    kernel_limits,
    limited,
    program_of,
    through,
)
from env_server.server_file import ServerFile
from env_server.server_place import Place
from env_server.server_strays import END_SECONDS
from env_server.warm_starts import WarmStarts
from env_server.world import World

log = logging.get(__name__)

MAX_LINE = 16 << 20
"""A message that is longer ends the server."""
KEPT_LINES = 50
"""Of what a server says on stderr; each cut at 500 characters."""
LAST_WORDS_SECONDS = 1.0


class ServerProcess:
    """Made by `start`. `ended` is done, with a reason, once the process has gone or broke the protocol."""

    def __init__(self, name: str, process: ServerChild, place: Place):
        self._name = name
        self._process = process
        self._place = place
        self._output = asyncio.StreamReader(limit=MAX_LINE)
        self._complaints = asyncio.StreamReader(limit=MAX_LINE)
        self._pipes: list[asyncio.BaseTransport] = []
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        process.watch(self._exited)
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        name: str,
        spec: ServerFile,
        world: World,
        place: Place,
        variables: dict[str, str],
        warm: WarmStarts,
    ) -> "ServerProcess":
        """ForeignServerError when the program cannot be started."""
        folder = world.folder
        environment = environment_of(spec, folder, place, variables)
        child: ServerChild | None = await warm.fork(
            name, spec, folder, world.now, place, environment
        )
        if child is None:
            program = program_of(name, spec, folder, environment["PATH"])
            argv = [program, *spec.command[1:]]
            if spec.clock == "frozen":
                argv = through(warm.script, program, spec, world.now)
            limits = kernel_limits(spec.limits, has_account=place.account is not None)
            try:
                process = subprocess.Popen(
                    child_command(limited(argv, limits), death=signal.SIGKILL, account=place.ids),
                    cwd=folder_of(folder, place),
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise ForeignServerError(
                    f"server {name} cannot be started: {error.strerror}"
                ) from error
            child = StartedChild(process)
        started = cls(name, child, place)
        await started._connect()
        return started

    async def _connect(self) -> None:
        """The process's pipes as streams of the event loop."""
        loop = asyncio.get_running_loop()
        for stream, pipe in (
            (self._output, self._process.stdout),
            (self._complaints, self._process.stderr),
        ):
            reading = asyncio.StreamReaderProtocol(stream)
            assert pipe
            end = PipeEnd(pipe, loop)
            transport, _ = await loop.connect_read_pipe(lambda made=reading: made, end)
            self._pipes.append(transport)
        writing = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        assert self._process.stdin
        end = PipeEnd(self._process.stdin, loop)
        transport, _ = await loop.connect_write_pipe(lambda: writing, end)
        self._pipes.append(transport)
        self._input = asyncio.StreamWriter(transport, writing, None, loop)
        self._listening = asyncio.create_task(self._listen())

    def transport(self) -> Transport:
        """What the official client talks through."""
        return _streams(self)

    async def kill(self) -> None:
        """End it with everything that it started, at once; a second time is fine."""
        kill_group(self._process)
        await asyncio.to_thread(self._place.end)
        # Its last words are still in the pipe.
        if self._listening:
            await asyncio.wait({self._listening}, timeout=LAST_WORDS_SECONDS)
            await cancel_all([self._listening])
        for pipe in self._pipes:
            pipe.close()
        self._process.unwatch()
        if not self.ended.done():
            self.ended.set_result(f"server {self._name} was ended")
        await self._process.bury(END_SECONDS)
        if self._said:
            log.info("a server's last words", server=self._name, stderr="\n".join(self._said))

    def last_words(self) -> str:
        """What it said last on stderr; for whoever writes a world, never for an agent."""
        return self._said[-1] if self._said else ""

    def broke(self, how: str) -> None:
        """The server cannot be talked with any more."""
        if not self.ended.done():
            self.ended.set_result(f"server {self._name} {how}")

    async def read(self) -> bytes:
        """The next line; empty at the end."""
        try:
            return await self._output.readline()
        except ValueError:
            self.broke(f"sent a message of more than {MAX_LINE >> 20} MiB")
            return b""

    async def write(self, line: bytes) -> None:
        self._input.write(line)
        await self._input.drain()

    def note(self, line: bytes) -> None:
        """Keep a line that is no message."""
        self._said.append(line.decode(errors="replace").rstrip()[:500])

    def _exited(self) -> None:
        code = self._process.poll() or 0
        how = f"with signal {-code}" if code < 0 else f"with status {code}"
        self.broke(f"ended by itself {how}")

    async def _listen(self) -> None:
        while True:
            try:
                line = await self._complaints.readline()
            except ValueError:
                continue
            if not line:
                return
            self.note(line)


@asynccontextmanager
async def _streams(process: ServerProcess) -> AsyncIterator[tuple]:
    """A transport of the official client over the process's pipes; it ends when they do."""
    to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](16)
    jobs = [
        asyncio.create_task(_receive(process, to_client)),
        asyncio.create_task(_send(process, from_client)),
    ]
    try:
        yield incoming, outgoing
    finally:
        await cancel_all(jobs)
        for stream in (to_client, incoming, outgoing, from_client):
            stream.close()


async def _receive(process: ServerProcess, to_client) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while line := await process.read():
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                process.note(line)
                continue
            await to_client.send(SessionMessage(message))
    process.broke("closed its output")
    to_client.close()


async def _send(process: ServerProcess, from_client) -> None:
    try:
        async for item in from_client:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.write(text.encode() + b"\n")
    except (OSError, RuntimeError):
        # uvloop raises the second for a pipe that the other side has closed.
        process.broke("closed its input")
