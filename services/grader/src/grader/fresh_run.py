"""Ingest's way to run given tool calls in a fresh episode. The serving process never does this."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

import grpc.aio
from envfarm.canonical import canonical_json
from envfarm.errors import GraderError, boundary
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc, episode_pb2, task_pb2

from grader.checkset import Action

Metadata = list[tuple[str, str]]


class FreshRuns:
    """Opens fresh episodes on one env-server with the infrastructure token."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Metadata, timeout_seconds: float):
        self._stub = env_service_pb2_grpc.EnvServiceStub(channel)
        self._call = {"metadata": metadata, "timeout": timeout_seconds}

    async def tasks(self, domain: str) -> dict[str, task_pb2.Task]:
        """Public halves by task id."""
        with boundary(GraderError, "listing tasks"):
            response = await self._stub.ListTasks(
                env_service_pb2.ListTasksRequest(domain=domain), **self._call
            )
        return {task.ref.task_id: task for task in response.tasks}

    @asynccontextmanager
    async def sealed(
        self, task: task_pb2.Task, actions: Sequence[Action]
    ) -> AsyncIterator[tuple[str, list[str]]]:
        """A sealed episode after `actions`: its id, and the refusals that the calls met."""
        with boundary(GraderError, f"running {task.ref.task_id}"):
            opened = await self._stub.OpenEpisode(
                env_service_pb2.OpenEpisodeRequest(
                    request_id=f"ingest-{uuid4()}",
                    task_id=task.ref.task_id,
                    task_hash=task.ref.task_hash,
                    slot_mode=episode_pb2.SLOT_MODE_FRESH,
                    client="grader-ingest",
                ),
                **self._call,
            )
            episode_id = opened.episode.episode_id
            try:
                refusals = [
                    refusal
                    for index, action in enumerate(actions)
                    if (refusal := await self._do(episode_id, index, action))
                ]
                await self._stub.SealEpisode(
                    env_service_pb2.SealEpisodeRequest(episode_id=episode_id), **self._call
                )
                yield episode_id, refusals
            finally:
                await self._stub.CloseEpisode(
                    env_service_pb2.CloseEpisodeRequest(episode_id=episode_id), **self._call
                )

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
