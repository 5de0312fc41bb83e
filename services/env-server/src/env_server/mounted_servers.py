"""The MCP servers of one episode: started before it opens, called one call at a time, read when it is
sealed, and ended with it.

An agent reaches the pinned tools and nothing else: a call names a tool of the world, and there is no
tool that calls tools.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld, EnvfarmError, ForeignServerError
from envfarm_common import logging

from env_server import evidence
from env_server.evidence import Table, TableRows
from env_server.server_file import ForeignTool, PinnedTool, ServerFile, chosen, foreign_tool
from env_server.server_link import ServerLink
from env_server.server_place import Place
from env_server.server_process import ServerProcess
from env_server.server_room import ServerRoom
from env_server.tool_call import MAX_RESULT_BYTES, Observation
from env_server.world import Task, World

log = logging.get(__name__)

TEARDOWN_SECONDS = 2.0
START_EFFECTS_SECONDS = 30.0
_COLUMNS = ("server", "effects")
EFFECTS = Table("server_effects", _COLUMNS, ("server",), frozenset({"server"}), _COLUMNS)
"""What servers say at the seal, as evidence and the grader know it; no world may have such a table."""


def effects_rows(effects: Mapping[str, Any]) -> TableRows:
    """One row per server that tells its effects."""
    rows = tuple(
        canonical_json({"server": name, "effects": value})
        for name, value in sorted(effects.items())
    )
    return TableRows(EFFECTS, rows, rows, evidence.hash_of(rows))


class _Mounted:
    """One server while it runs."""

    def __init__(self, link: ServerLink, place: Place | None):
        self.link = link
        self.place = place

    async def close(self) -> None:
        """A second time is fine."""
        place, self.place = self.place, None
        await self.link.close()
        if place:
            await asyncio.to_thread(place.release)


class MountedServers:
    """Made by `start`; `lost` is told a reason when the episode cannot go on without a server."""

    def __init__(
        self,
        world: World,
        room: ServerRoom,
        dsn: str,
        lost: Callable[[str], None],
        inits: Mapping[str, Mapping[str, Any]],
    ):
        self._world = world
        self._inits = inits
        self._room = room
        self._dsn = dsn
        self._lost = lost
        self._running: dict[str, _Mounted] = {}
        self._restarts: dict[str, int] = {}
        self._busy = ""
        self._closing: asyncio.Task[None] | None = None
        self.initial_effects: TableRows | None = None
        """What servers told before the first call; None where none of the world's tells anything."""
        self.effects: TableRows | None = None
        """The same since `finish`."""

    @classmethod
    async def start(
        cls, task: Task, room: ServerRoom, dsn: str, lost: Callable[[str], None]
    ) -> "MountedServers":
        """All servers of the task's world, told what the task says, ready; on any error none is left.
        ForeignServerError or BrokenWorld, NoCapacity when no place is left."""
        world = task.world
        mounted = cls(world, room, dsn, lost, task.inits)
        try:
            for name in world.servers:
                await mounted._start(name)
            if world.tells_effects:
                mounted.initial_effects = await mounted._ask_effects(START_EFFECTS_SECONDS)
        except BaseException:
            await mounted.close()
            raise
        return mounted

    async def call(self, tool: ForeignTool, arguments_json: str, deadline: float) -> Observation:
        """Call it once. ForeignServerError when the server has ended, or when it did not answer
        within `deadline` seconds: nobody knows then what it did."""
        begin = time.monotonic()

        def seen(content: str, is_error: bool) -> Observation:
            return Observation(content, is_error, time.monotonic() - begin)

        try:
            arguments = json.loads(arguments_json or "{}")
        except ValueError:
            return seen(f"Bad arguments for {tool.name}. They are no JSON.", True)
        if not isinstance(arguments, dict):
            return seen(f"Bad arguments for {tool.name}. They must be an object.", True)
        mounted = await self._alive(tool.server)
        self._busy = tool.server
        try:
            async with asyncio.timeout(deadline):
                content, is_error = await mounted.link.call(tool.name, arguments)
        except TimeoutError as error:
            raise ForeignServerError(
                f"server {tool.server} did not answer {tool.name} within {deadline:g} s"
            ) from error
        finally:
            self._busy = ""
        if len(content.encode()) > MAX_RESULT_BYTES:
            return seen("The result is larger than 1 MiB; ask for less.", True)
        return seen(content, is_error)

    async def finish(self, deadline: float) -> None:
        """Ask for the effects of those that tell them, then end all; ForeignServerError when one
        does not say. Nothing of the episode changes after this."""
        self.effects = await self._ask_effects(deadline)
        await self.close()

    async def _ask_effects(self, deadline: float) -> TableRows:
        found: dict[str, Any] = {}
        for name, spec in self._world.servers.items():
            if tool := spec.lifecycle.effects:
                mounted = await self._alive(name)
                try:
                    async with asyncio.timeout(deadline):
                        found[name] = json.loads(await mounted.link.run_lifecycle(tool, {}))
                except (TimeoutError, ValueError) as error:
                    raise ForeignServerError(
                        f"server {name}: {tool} did not tell its effects as JSON in time"
                    ) from error
        return effects_rows(found)

    async def close(self) -> None:
        """End every server with everything that it started; a second time is fine."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for name, mounted in self._running.items():
            tool = self._world.servers[name].lifecycle.teardown
            if tool and not mounted.link.ended.done():
                with contextlib.suppress(EnvfarmError, TimeoutError):
                    async with asyncio.timeout(TEARDOWN_SECONDS):
                        await mounted.link.run_lifecycle(tool, {})
        await asyncio.gather(*(mounted.close() for mounted in self._running.values()))

    async def _alive(self, name: str) -> _Mounted:
        """The server, started anew where it ended between two calls and its file allows that."""
        mounted = self._running[name]
        if not mounted.link.ended.done():
            return mounted
        if not self._may_restart(name):
            raise ForeignServerError(mounted.link.ended.result())
        self._restarts[name] = self._restarts.get(name, 0) + 1
        log.warning("a server is started again", server=name, reason=mounted.link.ended.result())
        del self._running[name]
        await mounted.close()
        await self._start(name)
        return self._running[name]

    def _may_restart(self, name: str) -> bool:
        spec = self._world.servers[name]
        return (
            spec.restart == "between_calls"
            and self._busy != name
            and self._restarts.get(name, 0) < spec.max_restarts
        )

    async def _start(self, name: str) -> None:
        spec = self._world.servers[name]
        async with self._room.starting:
            mounted = await self._spawn(name, spec)
            try:
                async with asyncio.timeout(spec.start_seconds):
                    listed = await mounted.link.open()
                    require_pinned(self._world, name, listed)
                    if spec.lifecycle.init:
                        config = {**spec.config, **self._inits.get(name, {})}
                        told = await mounted.link.run_lifecycle(
                            spec.lifecycle.init, {"config": config}
                        )
                        _require_accepted(name, told)
            except TimeoutError as error:
                await mounted.close()
                raise ForeignServerError(
                    f"server {name} was not ready within {spec.start_seconds:g} s"
                ) from error
            except BaseException:
                await mounted.close()
                raise
        self._running[name] = mounted
        mounted.link.ended.add_done_callback(lambda ended: self._ended(name, mounted))

    async def _spawn(self, name: str, spec: ServerFile) -> _Mounted:
        if not spec.command:
            return _Mounted(ServerLink(name, spec, None), None)
        place = await asyncio.to_thread(self._room.place)
        variables = {"ENVFARM_NOW": self._world.now.isoformat()}
        if spec.dsn_variable:
            variables[spec.dsn_variable] = self._dsn
        try:
            process = await ServerProcess.start(
                name, spec, self._world, place, variables, self._room.warm
            )
        except BaseException:
            await asyncio.to_thread(place.release)
            raise
        return _Mounted(ServerLink(name, spec, process), place)

    def _ended(self, name: str, mounted: _Mounted) -> None:
        if self._closing is None and not self._may_restart(name):
            self._lost(mounted.link.ended.result())


def require_pinned(world: World, server: str, listed: Iterable[PinnedTool]) -> None:
    """BrokenWorld when a tool that the world offers is not what the server lists."""
    found = {tool.name: tool for tool in listed}
    for tool in world.foreign.values():
        if tool.server != server:
            continue
        now = found.get(tool.name)
        if now is None or foreign_tool(server, now) != tool:
            what = "is gone" if now is None else "is not as it was pinned"
            raise BrokenWorld(
                f"server {server}: tool {tool.name} {what}",
                hint=f"look at what changed, then `envfarm world pin {world.world_id}`",
            )


def _require_accepted(name: str, told: str) -> None:
    """An init answers JSON: {} or one whose status is "ok"."""
    try:
        answer = json.loads(told)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or (answer and answer.get("status") != "ok"):
        raise ForeignServerError(f"server {name} refused its config")


async def list_tools(world: World, room: ServerRoom, dsn: str) -> Mapping[str, list[PinnedTool]]:
    """What each server of a world offers now, as a pin holds it: started for this alone."""
    found: dict[str, list[PinnedTool]] = {}
    lonely = MountedServers(world, room, dsn, lambda reason: None, {})
    for name, spec in world.servers.items():
        mounted = await lonely._spawn(name, spec)
        try:
            async with asyncio.timeout(spec.start_seconds):
                listed = await mounted.link.open()
        except (TimeoutError, ForeignServerError) as error:
            await mounted.close()
            late = f"server {name} was not ready within {spec.start_seconds:g} s"
            told = error.message if isinstance(error, ForeignServerError) else late
            raise ForeignServerError(
                ": ".join(filter(None, (told, mounted.link.last_words())))
            ) from error
        finally:
            await mounted.close()
        found[name] = [tool for tool in listed if spec.offers(tool.name)]
        missing = set(spec.tools or []) - {tool.name for tool in listed}
        if missing:
            raise BrokenWorld(f"server {name} has no tool {', '.join(sorted(missing))}")
    return found if world.offer is None else chosen(found, world.offer)
