"""An env-server is found while it takes episodes and forgotten when it does not."""

import asyncio
from collections.abc import Iterator

import pytest
from envfarm.streams import ENV_SERVER_SECONDS, ENV_SERVERS
from envfarm_common.binaries import RedisServer
from redis.asyncio import Redis

from env_server.registry import Registry, announced
from rollout_gateway.env_registry import registered

ADDRESS = "10.0.0.7:9090"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
async def client(url: str):
    async with Redis.from_url(url) as client:
        await client.flushall()
        yield client


async def test_a_heartbeat_is_found_by_gateways(url: str, client: Redis):
    await Registry(url, ADDRESS, lambda: True).beat()
    assert await registered(client) == [ADDRESS]


async def test_who_takes_no_episodes_is_not_found(url: str, client: Redis):
    ready = [True]
    registry = Registry(url, ADDRESS, lambda: ready[0])
    await registry.beat()
    ready[0] = False
    await registry.beat()
    assert await registered(client) == []


async def test_who_is_silent_is_not_found_and_the_next_heartbeat_of_another_forgets_it(
    url: str, client: Redis
):
    seconds, _ = await client.time()
    await client.zadd(ENV_SERVERS, {"10.0.0.1:1": seconds - ENV_SERVER_SECONDS - 2})
    assert await registered(client) == []
    await Registry(url, ADDRESS, lambda: True).beat()
    assert await client.zcard(ENV_SERVERS) == 1


async def test_it_is_announced_while_it_serves_and_leaves_at_once(url: str, client: Redis):
    async with announced(url, ADDRESS, lambda: True):
        async with asyncio.timeout(30):
            while await registered(client) != [ADDRESS]:
                await asyncio.sleep(0.01)
    assert await registered(client) == []


async def test_a_redis_that_does_not_answer_stops_neither_side():
    nowhere = "redis://127.0.0.1:9"
    await Registry(nowhere, ADDRESS, lambda: True).beat()
    with pytest.raises(OSError, match="redis"):
        await registered(Redis.from_url(nowhere))
