"""Opening an episode where an env-server is leaving: another one opens it, and nobody is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from envfarm.v1 import env_service_pb2 as wire
from envfarm.v1 import episode_pb2, task_pb2
from envfarm.v1.env_service_pb2_grpc import EnvServiceServicer, add_EnvServiceServicer_to_server

from rollout_gateway.environment import Environment

TASK = task_pb2.TaskRef(task_id="shop/one", task_hash="h")


class Opens(EnvServiceServicer):
    """Opens every episode once `may_answer` is set, or cancels the call then, as a stopping server may."""

    def __init__(self, name: str, *, is_cancelled: bool = False):
        self.name, self.is_cancelled = name, is_cancelled
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def OpenEpisode(
        self, request: wire.OpenEpisodeRequest, context: Any
    ) -> wire.OpenEpisodeResponse:
        self.asked.set()
        await self.may_answer.wait()
        if self.is_cancelled:
            await context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")
        episode = episode_pb2.Episode(episode_id=self.name, task=task_pb2.Task(ref=TASK))
        return wire.OpenEpisodeResponse(episode=episode)

    async def CloseEpisode(
        self, request: wire.CloseEpisodeRequest, context: Any
    ) -> wire.CloseEpisodeResponse:
        return wire.CloseEpisodeResponse()


@asynccontextmanager
async def serving(service: Opens) -> AsyncIterator[tuple[grpc.aio.Server, str]]:
    server = grpc.aio.server()
    add_EnvServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_open_that_a_stopping_server_leaves_unanswered_goes_to_the_next(
    is_cancelled: bool,
):
    leaving, staying = Opens("leaving", is_cancelled=is_cancelled), Opens("staying")
    staying.may_answer.set()
    async with serving(leaving) as (old, first), serving(staying) as (_, second):
        environment = Environment(
            # The one after the first is asked first.
            [second, first],
            "t" * 24,
            call_seconds=20,
            lease_seconds=60,
            slot_mode="fresh",
        )

        async def opened() -> str:
            async with environment.episode(TASK, "r", contextlib.nullcontext) as live:
                return live.episode_id

        async with asyncio.timeout(20):
            opening = asyncio.create_task(opened())
            await leaving.asked.wait()
            if is_cancelled:
                leaving.may_answer.set()
            else:
                await old.stop(None)
            assert await opening == "staying"
        await environment.close()
