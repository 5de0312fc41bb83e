"""The env-servers, as the gateway sees them: tasks, live episodes, leases.

An open is repeated under its own request id until a server has room. A tool call is sent once: what
became of a call whose answer was lost is the env-server's to know, and ours never to try again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio
from envfarm.errors import (
    TRAILER,
    WIRE,
    DatabaseError,
    EnvfarmError,
    InvalidArgument,
    LeaseExpired,
    UnknownTask,
    boundary,
)
from envfarm.task_pages import every_task
from envfarm.v1 import env_service_pb2 as wire
from envfarm.v1 import episode_pb2, task_pb2
from envfarm.v1.env_service_pb2_grpc import EnvServiceStub
from envfarm_common import logging, tracing
from envfarm_common.grpc import connect

log = logging.get(__name__)

OPEN_PAUSE_SECONDS = 0.5
CLIENT_NAME = "rollout-gateway"
SLOT_MODES = {"fresh": episode_pb2.SLOT_MODE_FRESH, "reuse": episode_pb2.SLOT_MODE_REUSE}
_UNREACHABLE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
)
"""A server that stops cancels what it has not answered; a call that we cancel ourselves raises otherwise."""


class EnvServer:
    """One gRPC door and the leases of our episodes behind it."""

    def __init__(self, address: str, token: str, call_seconds: float, lease_seconds: float):
        self.address = address
        self._call_seconds = call_seconds
        self._lease_seconds = lease_seconds
        self._channel, self._metadata = connect(address, token)
        self.stub: Any = EnvServiceStub(self._channel)
        self._leased: dict[str, asyncio.Event] = {}
        self._renewer: asyncio.Task[None] | None = None

    async def ask(self, method: str, request: Any) -> Any:
        """One call; a dead server is a DatabaseError, its own errors are what it raised."""
        what = f"env-server {self.address}: {method}"
        with boundary(DatabaseError, what):
            call: Callable[..., Any] = getattr(self.stub, method)
            metadata = tracing.with_trace(self._metadata)
            return await call(request, timeout=self._call_seconds, metadata=metadata)

    def lease(self, episode_id: str) -> asyncio.Event:
        """Keep the episode alive until `release`; the event is set when it is gone all the same."""
        event = self._leased[episode_id] = asyncio.Event()
        if self._renewer is None or self._renewer.done():
            self._renewer = asyncio.create_task(self._renew())
        return event

    def release(self, episode_id: str) -> None:
        self._leased.pop(episode_id, None)

    async def close(self) -> None:
        if self._renewer is not None:
            self._renewer.cancel()
        await self._channel.close()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            if not self._leased:
                continue
            request = wire.RenewLeaseRequest(episode_ids=list(self._leased))
            try:
                answer: wire.RenewLeaseResponse = await self.ask("RenewLease", request)
            except EnvfarmError as error:
                log.warning("leases not renewed", server=self.address, error=error.message)
                continue
            for episode_id in answer.gone:
                if event := self._leased.get(episode_id):
                    event.set()


class LiveEpisode:
    """One open episode; every call raises the env-server's own errors."""

    def __init__(self, server: EnvServer, episode: episode_pb2.Episode, request_id: str):
        self._server = server
        self._request_id = request_id
        self._calls = 0
        self._gone = server.lease(episode.episode_id)
        self.episode_id = episode.episode_id
        self.task = episode.task
        self.initial_state_hash = episode.initial_state_hash
        self.env_server = episode.env_server or server.address

    async def call(self, tool: str, arguments_json: str) -> episode_pb2.ToolResult:
        """Sent once, never again. What the server finds wrong with the arguments is an observation."""
        if self._gone.is_set():
            raise LeaseExpired(f"the lease of {self.episode_id} ran out at {self.env_server}")
        self._calls += 1
        request = wire.CallToolRequest(
            episode_id=self.episode_id,
            request_id=f"{self._request_id}.c{self._calls}",
            tool=tool,
            arguments_json=arguments_json,
        )
        try:
            return (await self._server.ask("CallTool", request)).result
        except InvalidArgument as error:
            return episode_pb2.ToolResult(content=error.message, is_error=True)

    async def seal(self) -> wire.SealEpisodeResponse:
        return await self._server.ask(
            "SealEpisode", wire.SealEpisodeRequest(episode_id=self.episode_id)
        )

    async def close(self) -> None:
        """A close that fails is logged: the lease ends the episode anyway."""
        self._server.release(self.episode_id)
        request = wire.CloseEpisodeRequest(episode_id=self.episode_id)
        try:
            await self._server.ask("CloseEpisode", request)
        except EnvfarmError as error:
            log.warning("episode not closed", episode_id=self.episode_id, error=error.message)


class Environment:
    """All env-servers."""

    def __init__(
        self,
        addresses: Sequence[str],
        token: str,
        *,
        call_seconds: float,
        lease_seconds: float,
        slot_mode: str,
    ):
        self._addresses = list(addresses)
        self._token = token
        self._call_seconds = call_seconds
        self._lease_seconds = lease_seconds
        self._slot_mode = slot_mode
        self._servers: dict[str, EnvServer] = {}
        self._next = 0

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    def use(self, addresses: Sequence[str]) -> None:
        """New episodes open at these from now on; open ones stay where they are."""
        self._addresses = list(addresses)

    @property
    def addresses(self) -> list[str]:
        return list(self._addresses)

    async def tasks(self) -> dict[str, task_pb2.Task]:
        """Tasks by id, from the first server that answers."""
        error: EnvfarmError | None = None
        for address in self._addresses:
            try:
                return await every_task(partial(self._server(address).ask, "ListTasks"))
            except EnvfarmError as failure:
                error = failure
        raise error or DatabaseError("no env-server is configured")

    @asynccontextmanager
    async def episode(
        self,
        task: task_pb2.TaskRef,
        request_id: str,
        waiting: Callable[[], AbstractContextManager[None]],
        slot_mode: str = "",
    ) -> AsyncIterator[LiveEpisode]:
        """Open an episode, waiting for room as long as it takes; closed on every way out.

        `waiting` is entered while we wait; `slot_mode` replaces our own. UnknownTask, BrokenWorld and whatever else no
        wait can change is raised at once.
        """
        mode = SLOT_MODES[slot_mode or self._slot_mode]
        server, opened = await self._open(task, request_id, waiting, mode)
        owner = self._server(opened.env_server) if opened.env_server else server
        live = LiveEpisode(owner, opened, request_id)
        try:
            if (opened.task.ref.task_id, opened.task.ref.task_hash) != (
                task.task_id,
                task.task_hash,
            ):
                raise UnknownTask(f"{server.address} opened {opened.task.ref.task_id} instead")
            yield live
        finally:
            await asyncio.shield(live.close())

    async def _open(
        self,
        task: task_pb2.TaskRef,
        request_id: str,
        waiting: Callable[[], AbstractContextManager[None]],
        slot_mode: episode_pb2.SlotMode,
    ) -> tuple[EnvServer, episode_pb2.Episode]:
        request = wire.OpenEpisodeRequest(
            request_id=request_id,
            task_id=task.task_id,
            task_hash=task.task_hash,
            slot_mode=slot_mode,
            lease_seconds=self._lease_seconds,
            client=CLIENT_NAME,
        )
        while True:
            pause = OPEN_PAUSE_SECONDS
            addresses = self._addresses
            for _ in addresses:
                self._next = (self._next + 1) % len(addresses)
                server = self._server(addresses[self._next])
                try:
                    return server, (await server.ask("OpenEpisode", request)).episode
                except EnvfarmError as error:
                    if not _may_pass(error):
                        raise
                    pause = max(pause, min(error.retry_after_seconds, 10.0))
            with waiting():
                await asyncio.sleep(pause)

    def _server(self, address: str) -> EnvServer:
        if address not in self._servers:
            self._servers[address] = EnvServer(
                address, self._token, self._call_seconds, self._lease_seconds
            )
        return self._servers[address]


def _may_pass(error: EnvfarmError) -> bool:
    """Whether another server, or the same one later, may open after all."""
    cause = error.__cause__
    if not isinstance(cause, grpc.aio.AioRpcError):
        return False
    said_by_server = any(key == TRAILER for key, _ in cause.trailing_metadata() or ())
    return WIRE[type(error)].retryable if said_by_server else cause.code() in _UNREACHABLE
