"""Ingest's way to run given tool calls in a fresh episode. The serving process never does this."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

import grpc.aio
from envfarm.canonical import canonical_json
from envfarm.errors import GraderError, NoCapacity, boundary
from envfarm.task_pages import every_task
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc, episode_pb2, task_pb2

from grader.checkset import Action

Metadata = list[tuple[str, str]]
FULL_SECONDS = 60.0
"""Longest time in which an env-server that is full opens none of our episodes."""


class FreshRuns:
    """Opens fresh episodes on one env-server with the infrastructure token."""

    def __init__(
        self, channel: grpc.aio.Channel, metadata: Metadata, timeout_seconds: float, at_once: int
    ):
        """`at_once` bounds the episodes that are open together."""
        self._stub = env_service_pb2_grpc.EnvServiceStub(channel)
        self._call = {"metadata": metadata, "timeout": timeout_seconds}
        self._room = asyncio.Semaphore(at_once)
        self._last_opened = 0.0
        self.opened = 0

    async def tasks(self, domain: str) -> dict[str, task_pb2.Task]:
        """Public halves by task id."""
        with boundary(GraderError, "listing tasks"):
            return await every_task(
                lambda request: self._stub.ListTasks(request, **self._call), domain
            )

    @asynccontextmanager
    async def sealed(
        self,
        task: task_pb2.Task,
        actions: Sequence[Action],
        slot_mode: episode_pb2.SlotMode,
        *,
        until_refused: bool = False,
    ) -> AsyncIterator[tuple[str, list[str]]]:
        """A sealed episode after `actions`: its id, and the refusals that the calls met.

        With `until_refused` no call follows a refused one. Waits while the env-server is full.
        """
        async with self._room:
            with boundary(GraderError, f"running {task.ref.task_id}"):
                episode_id = await self._open(task, slot_mode)
                try:
                    refusals: list[str] = []
                    for index, action in enumerate(actions):
                        refusal = await self._do(episode_id, index, action)
                        if refusal:
                            refusals.append(refusal)
                            if until_refused:
                                break
                    await self._stub.SealEpisode(
                        env_service_pb2.SealEpisodeRequest(episode_id=episode_id), **self._call
                    )
                    yield episode_id, refusals
                finally:
                    await self._stub.CloseEpisode(
                        env_service_pb2.CloseEpisodeRequest(episode_id=episode_id), **self._call
                    )

    async def _open(self, task: task_pb2.Task, slot_mode: episode_pb2.SlotMode) -> str:
        request = env_service_pb2.OpenEpisodeRequest(
            request_id=f"ingest-{uuid4()}",
            task_id=task.ref.task_id,
            task_hash=task.ref.task_hash,
            slot_mode=slot_mode,
            client="grader-ingest",
        )
        began = time.monotonic()
        while True:
            try:
                with boundary(GraderError, f"opening {task.ref.task_id}"):
                    opened = await self._stub.OpenEpisode(request, **self._call)
            except NoCapacity as error:
                # Who waits while others get in waits for its turn, however slow they are.
                if time.monotonic() > max(began, self._last_opened) + FULL_SECONDS:
                    raise
                await asyncio.sleep(error.retry_after_seconds or 0.2)
                continue
            self._last_opened = time.monotonic()
            self.opened += 1
            return opened.episode.episode_id

    async def _do(self, episode_id: str, index: int, action: Action) -> str:
        """The sentence of a refusal, or nothing."""
        response = await self._stub.CallTool(
            env_service_pb2.CallToolRequest(
                episode_id=episode_id,
                request_id=f"{episode_id}.{index}",
                tool=action.tool,
                arguments_json=canonical_json(action.arguments),
            ),
            **self._call,
        )
        return f"{action.tool}: {response.result.content}" if response.result.is_error else ""
