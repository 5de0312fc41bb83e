"""Publication on real servers of the Redis protocol: one entry per group, whatever dies in between."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis.asyncio as redis
from envfarm import streams
from envfarm.canonical import bytes_hash
from envfarm.errors import StreamError
from envfarm.v1 import group_pb2, task_pb2, verdict_pb2
from envfarm_common.binaries import RedisServer

from rollout_gateway.publish import Publisher
from rollout_gateway.store import FolderStore, RedisStore
from tests.integration.gateway.conftest import VERSION, Stream
from tests.support.redis_server import SOURCES, redis_from


def group(formed_at: float = 1.0) -> group_pb2.Group:
    verdicts = [verdict_pb2.Verdict(reward=reward) for reward in (1.0, 0.0)]
    return group_pb2.Group(
        schema_version=1,
        group_id="job.0.0",
        run_id="run",
        task=task_pb2.TaskRef(task_id="orders/x", task_hash="t"),
        rollouts=[group_pb2.Rollout(slot=n, verdict=v) for n, v in enumerate(verdicts)],
        size=2,
        policy=VERSION,
        formed_at=formed_at,
    )


class Dies(BaseException):
    """Stands for kill -9."""


@pytest.fixture(scope="module", params=SOURCES)
def redis_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    with redis_from(request.param, tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest_asyncio.fixture
async def client(redis_server: RedisServer, stream: Stream) -> AsyncIterator["redis.Redis"]:
    client = redis.Redis.from_url(redis_server.url)
    yield client
    await client.aclose()


async def test_the_entry_names_the_group_its_bytes_and_its_rewards(
    client: "redis.Redis", stream: Stream
):
    entry_id = await Publisher(client, RedisStore(), require_aof=True).publish(group())
    ((found, fields),) = await client.xrange("envfarm:run:groups")  # pyright: ignore
    assert found.decode() == entry_id
    assert {key.decode() for key in fields} == set(streams.ENTRY_FIELDS)
    data = await client.get(fields[b"store_key"])
    assert fields[b"sha256"].decode() == bytes_hash(data)
    assert int(fields[b"bytes"]) == len(data)
    assert fields[b"rewards"] == b"1,0"
    assert group_pb2.Group.FromString(data) == group()


async def test_a_kill_between_store_and_stream_leads_to_one_entry(
    client: "redis.Redis", stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    first = Publisher(client, RedisStore(), require_aof=True)

    async def die(*_: Any) -> None:
        raise Dies

    monkeypatch.setattr(first, "_add", die)
    with pytest.raises(Dies):
        await first.publish(group())
    assert stream.ids() == []
    assert len(await client.keys("envfarm:run:group:*")) == 1
    await Publisher(client, RedisStore(), require_aof=True).publish(group())
    assert stream.ids() == ["job.0.0"]
    assert stream.groups() == [group()]


async def test_a_kill_between_stream_and_outcome_leads_to_one_entry(
    client: "redis.Redis", stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    first = Publisher(client, RedisStore(), require_aof=True)
    confirm, calls = first._confirm, []

    async def die_second(link: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Dies
        await confirm(link)

    monkeypatch.setattr(first, "_confirm", die_second)
    with pytest.raises(Dies):
        await first.publish(group())
    again = await Publisher(client, RedisStore(), require_aof=True).publish(group(formed_at=2.0))
    assert stream.ids() == ["job.0.0"]
    assert stream.groups()[0].formed_at == 1.0
    assert (
        await Publisher(client, RedisStore(), require_aof=True).published("run", "job.0.0") == again
    )


async def test_publishers_that_race_add_one_entry(client: "redis.Redis", stream: Stream):
    publishers = [Publisher(client, RedisStore(), require_aof=True) for _ in range(6)]
    entries = await asyncio.gather(
        *(publisher.publish(group(float(n))) for n, publisher in enumerate(publishers))
    )
    assert len(set(entries)) == 1
    assert stream.ids() == ["job.0.0"]
    # The entry's checksum is that of the bytes it points at, whoever won.
    ((_, fields),) = await client.xrange("envfarm:run:groups")  # pyright: ignore
    assert bytes_hash(await client.get(fields[b"store_key"])) == fields[b"sha256"].decode()


async def test_an_entry_that_the_learner_deleted_is_not_added_again(
    client: "redis.Redis", stream: Stream
):
    publisher = Publisher(client, RedisStore(), require_aof=True)
    entry = await publisher.publish(group())
    await client.xdel("envfarm:run:groups", entry)
    assert await publisher.publish(group()) == entry
    assert stream.ids() == []


async def test_a_folder_can_hold_the_bytes(client: "redis.Redis", stream: Stream, tmp_path: Path):
    store = FolderStore(tmp_path / "groups")
    await Publisher(client, store, require_aof=True).publish(group())
    ((_, fields),) = await client.xrange("envfarm:run:groups")  # pyright: ignore
    data = (tmp_path / "groups" / fields[b"store_key"].decode()).read_bytes()
    assert bytes_hash(data) == fields[b"sha256"].decode()
    assert [path.name for path in (tmp_path / "groups").iterdir()] == [
        fields[b"store_key"].decode()
    ]


async def test_only_undelivered_groups_count(client: "redis.Redis", stream: Stream):
    publisher = Publisher(client, RedisStore(), require_aof=True)
    assert (await publisher.backlog("run", 10)).groups == 0
    for number in range(4):
        message = group()
        message.group_id = f"job.0.{number}"
        await publisher.publish(message)
    size = len(group().SerializeToString())
    backlog = await publisher.backlog("run", 10)
    assert (backlog.groups, backlog.bytes) == (4, 4 * size)
    assert (await publisher.backlog("run", 2)).groups == 2
    await client.xgroup_create("envfarm:run:groups", streams.CONSUMER_GROUP, id="0")
    taken = await client.xreadgroup(
        streams.CONSUMER_GROUP, "me", {"envfarm:run:groups": ">"}, count=3
    )
    assert (await publisher.backlog("run", 10)).groups == 1
    await client.xdel("envfarm:run:groups", *[entry for entry, _ in taken[0][1]])  # pyright: ignore
    assert (await publisher.backlog("run", 10)).groups == 1


async def test_without_waitaof_each_write_must_be_synced(
    client: "redis.Redis", stream: Stream, monkeypatch: pytest.MonkeyPatch
):
    send = redis.Redis.execute_command

    async def know_no_waitaof(self: Any, *words: Any, **options: Any) -> Any:
        return await send(self, "UNHEARDOF" if words[0] == "WAITAOF" else words[0], *words[1:])

    monkeypatch.setattr(redis.Redis, "execute_command", know_no_waitaof)
    publisher = Publisher(client, RedisStore(), require_aof=True)
    before = (await client.config_get("appendfsync"))["appendfsync"]
    try:
        await client.config_set("appendfsync", "everysec")
        with pytest.raises(StreamError, match="cannot confirm"):
            await publisher.publish(group())
        await client.config_set("appendfsync", "always")
        await publisher.publish(group())
        assert stream.ids() == ["job.0.0"]
    finally:
        await client.config_set("appendfsync", before)


async def test_a_redis_without_append_only_file_is_refused_unless_allowed(
    client: "redis.Redis", stream: Stream
):
    await client.config_set("appendonly", "no")
    try:
        with pytest.raises(StreamError, match="cannot confirm"):
            await Publisher(client, RedisStore(), require_aof=True).publish(group())
        await Publisher(client, RedisStore(), require_aof=False).publish(group())
        assert stream.ids() == ["job.0.0"]
    finally:
        await client.config_set("appendonly", "yes")


async def test_a_dead_redis_is_a_stream_error(client: "redis.Redis"):
    nowhere = redis.Redis.from_url("redis://127.0.0.1:9/0")
    with pytest.raises(StreamError):
        await Publisher(nowhere, RedisStore(), require_aof=True).publish(group())
    await nowhere.aclose()
