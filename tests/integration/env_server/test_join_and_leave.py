"""Under load an env-server joins and another leaves: no episode fails, and the one that left exits 0."""

import asyncio
import contextlib
import itertools
import json
from pathlib import Path

from envfarm.v1 import task_pb2
from envfarm_common.binaries import RedisServer
from redis.asyncio import Redis

from rollout_gateway.discovery import REGISTRY, Discovery
from rollout_gateway.env_registry import registered
from rollout_gateway.environment import Environment
from tests.support.env_server import SHELF, running_env_server

TOKENS = {"infra_token": "i" * 24, "grader_token": "g" * 24}
SECONDS = 120


class Load:
    """Episodes, four at once, until told to stop; an error of any of them ends the test."""

    def __init__(self, environment: Environment, task: task_pb2.TaskRef):
        self._environment, self._task = environment, task
        self._numbers = itertools.count()
        self.stopping = False
        self.done: list[str] = []
        """The env-server of each episode that ended well."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(self._work())

    async def _work(self) -> None:
        while not self.stopping:
            request_id = f"load-{next(self._numbers)}"
            async with self._environment.episode(
                self._task, request_id, contextlib.nullcontext
            ) as live:
                for book in ("B-1", "B-2"):
                    await live.call("lend_book", json.dumps({"book_id": book, "reader_id": "R-1"}))
                await live.seal()
                self.done.append(live.env_server)

    async def until(self, address: str, count: int) -> None:
        """So many more episodes have ended well at `address`."""
        wanted = self.done.count(address) + count
        async with asyncio.timeout(SECONDS):
            while self.done.count(address) < wanted:
                await asyncio.sleep(0.01)


async def test_an_env_server_joins_and_another_leaves_under_load(tmp_path: Path):
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        shared = {**TOKENS, "redis_url": redis.url, "drain_seconds": 60.0, "max_episodes": 8}
        first = stack.enter_context(running_env_server(SHELF, **shared))
        async with Redis.from_url(redis.url) as client:
            environment = Environment(
                [], TOKENS["infra_token"], call_seconds=60, lease_seconds=60, slot_mode="reuse"
            )
            discovery = Discovery(environment, [REGISTRY], registered=lambda: registered(client))
            async with asyncio.timeout(SECONDS):
                while environment.addresses != [first.grpc]:
                    await discovery.refresh()
            following = asyncio.create_task(discovery.run())
            task = (await environment.tasks())["shelf/lend-emma"].ref
            load = Load(environment, task)
            running = asyncio.create_task(load.run())
            await load.until(first.grpc, 8)
            second = await asyncio.to_thread(
                stack.enter_context, running_env_server(SHELF, **shared)
            )
            await load.until(second.grpc, 8)
            assert await asyncio.to_thread(first.stop, SECONDS) == 0
            await load.until(second.grpc, 8)
            load.stopping = True
            await running
            following.cancel()
            await environment.close()
