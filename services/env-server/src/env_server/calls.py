"""Tool calls of an episode: one at a time, in order of arrival, each executed once.

Under a request id a call goes on when its caller leaves, its answer, or its error, is replayed, and
the tool is never run again. Without one nobody could ask for the answer, so the call is cancelled.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from envfarm.errors import (
    BrokenWorld,
    DatabaseError,
    DeadlineError,
    ForeignServerError,
    InvalidArgument,
    NoCapacity,
)
from envfarm_common import tracing
from envfarm_common.metrics import Instruments

from env_server import tool_call
from env_server.episode import End, State
from env_server.live import LiveEpisode, gone
from env_server.server_file import ForeignTool
from env_server.tool_call import Observation
from env_server.toolkit import Tool

T = TypeVar("T")
MAX_WAITING_CALLS = 16


class Calls:
    """`end` is told when a call shows that its episode cannot go on."""

    def __init__(
        self,
        instruments: Instruments,
        deadline_seconds: float,
        end: Callable[[LiveEpisode, End, str], None],
    ):
        self._instruments = instruments
        self.deadline_seconds = deadline_seconds
        self._end = end

    async def call(
        self, live: LiveEpisode, name: str, arguments_json: str, request_id: str | None
    ) -> Observation:
        """Execute a tool once. Under an id it goes on when the caller leaves, and its answer waits."""
        asked = f"{name}\n{arguments_json}"
        if request_id is not None:
            if not request_id:
                raise InvalidArgument("request_id is empty; give each call an id of its own")
            if known := live.recall(request_id, asked):
                return await answer(live, known)
        live.episode.require(State.RUNNING)
        if live.waiting >= MAX_WAITING_CALLS:
            raise NoCapacity(f"{live.waiting} calls already wait in this episode")
        work = asyncio.create_task(self._call(live, name, arguments_json))
        if request_id is not None:
            live.calls[request_id] = (asked, work)
            return await answer(live, work)
        live.unnamed.add(work)
        work.add_done_callback(live.unnamed.discard)
        try:
            return await answer(live, work)
        except asyncio.CancelledError:
            # What a foreign server has begun cannot be undone, so it is seen to its end.
            if name not in live.task.world.foreign:
                work.cancel()
            raise

    async def _call(self, live: LiveEpisode, name: str, arguments_json: str) -> Observation:
        live.waiting += 1
        try:
            await live.one_call.acquire()
        finally:
            live.waiting -= 1
        world = live.task.world
        outcome = "failed"
        begin = time.monotonic()
        tool = world.offered.get(name)
        try:
            live.episode.require(State.RUNNING)
            live.tool_calls += 1
            if tool is None:
                seen = Observation(f"There is no tool named {name[:100]!r}.", True)
            else:
                with tracing.span("run tool", tool=name):
                    seen = await self._run(live, tool, arguments_json)
            outcome = seen.outcome
            return seen
        except BrokenWorld as error:
            self._end(live, End.BROKEN_WORLD, error.message)
            raise
        except ForeignServerError as error:
            self._end(live, End.SERVER, error.message)
            raise
        except (DatabaseError, DeadlineError) as error:
            if isinstance(error, DatabaseError) or live.slot.connection.closed:
                self._end(live, End.DATABASE, error.message)
            raise
        finally:
            seconds = time.monotonic() - begin
            live.tool_seconds += seconds
            live.one_call.release()
            self._instruments.observe(
                "envfarm_tool_seconds",
                seconds,
                world=world.world_id,
                tool=name if tool else "unknown",
                outcome=outcome,
            )

    async def _run(
        self, live: LiveEpisode, tool: Tool | ForeignTool, arguments_json: str
    ) -> Observation:
        if isinstance(tool, ForeignTool):
            assert live.servers
            return await live.servers.call(tool, arguments_json, self.deadline_seconds)
        return await tool_call.run(
            live.slot.connection,
            tool,
            arguments_json,
            live.task.world.now,
            self.deadline_seconds,
            live.files,
        )


async def answer(live: LiveEpisode, work: asyncio.Task[T]) -> T:
    """The result of `work`, which goes on if the caller leaves."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():
            raise gone(live.episode) from None
        raise
