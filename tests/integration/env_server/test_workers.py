"""Several workers behind one command: each owns its episodes, all share a Postgres and the limits."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from envfarm.errors import DatabaseError, EnvfarmError, NoCapacity, UnknownEpisode
from envfarm_common.binaries import RedisServer
from redis.asyncio import Redis

from rollout_gateway.env_registry import registered
from tests.support.env_server import SHELF, EnvClient, EnvServer, start_env_server
from tests.support.polling import wait_until
from tests.support.postgres_traces import folders, postmaster, processes, wait_until_async

EMMA = "shelf/lend-emma"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        yield redis.url


@pytest.fixture
def memory_dir() -> Iterator[Path]:
    """A memory-backed folder of this test alone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def workers(tmp_path: Path, memory_dir: Path, url: str) -> Iterator[list[EnvServer]]:
    """Two of them, as if each were an env-server of its own."""
    parent = start_env_server(
        SHELF,
        tmp_path,
        workers=2,
        max_episodes=5,
        redis_url=url,
        memory_dir=memory_dir,
        ready_high=2,
        lease_seconds=600,
        drain_seconds=60,
    )
    try:
        doors = json.loads((tmp_path / "ready.json").read_text())["workers"]
        yield [replace(parent, http=door["http"], grpc=door["grpc"]) for door in doors]
    finally:
        parent.process.kill()
        parent.process.wait()


async def metric(worker: EnvServer, name: str) -> float:
    """The sum over its labels, as this worker tells it."""
    async with httpx.AsyncClient() as http:
        text = (await http.get(f"{worker.http}/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith((name + "{", name + " "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def pids(folder: Path) -> dict[int, int]:
    (crew,) = (folder / "state").glob("workers-*")
    files = [file for file in crew.glob("ready.*") if file.suffix in (".0", ".1")]
    return {int(file.suffix[1:]): json.loads(file.read_text())["pid"] for file in files}


async def until(condition, what: str) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.05)


async def open_when_possible(client: EnvClient):
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.open(EMMA)
            except (NoCapacity, DatabaseError):
                await asyncio.sleep(0.05)


async def test_an_episode_belongs_to_the_worker_that_opened_it(
    workers: list[EnvServer], tmp_path: Path, memory_dir: Path, url: str
):
    first, second = workers
    async with first.client() as one, second.client() as two, Redis.from_url(url) as redis:
        here, there = await one.open(EMMA), await two.open(EMMA)
        assert [here.env_server, there.env_server] == [first.grpc, second.grpc]
        assert [here.mcp_url, there.mcp_url] == [f"{w.http}/mcp" for w in workers]
        assert here.initial_state_hash == there.initial_state_hash
        assert not (await two.call(there, "find_book", book_id="B-1")).is_error
        with pytest.raises(UnknownEpisode):
            await one.seal(there)
        assert [(await c.capacity()).max_episodes for c in (one, two)] == [3, 2]
        # Gateways find both, and both tell the same metrics: those of all.
        await until(lambda: _same(registered(redis), {w.grpc for w in workers}), "registered")
        for worker in workers:
            assert await metric(worker, "envfarm_episodes_opened_total") == 2
            assert await metric(worker, "envfarm_episodes_live") == 2
            assert await metric(worker, "process_resident_memory_bytes") > 2e7
        # One command, one Postgres.
        assert len(folders(memory_dir)) == 1
        # Told to end, both refuse opens and wait for what is open.
        first.process.send_signal(signal.SIGTERM)
        await until(lambda: _drains(one), "the first drains")
        await until(lambda: _drains(two), "the second drains")
        await one.seal(here)
        await one.close(here)
        assert first.process.poll() is None
        await two.close(there)
    running = pids(tmp_path).values()
    wait_until(lambda: first.process.poll() is not None, "the end of all", 60)
    assert first.process.returncode == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in running)
    assert [*folders(memory_dir), *(tmp_path / "state").iterdir()] == []


async def test_a_killed_worker_comes_back_and_takes_nobody_with_it(
    workers: list[EnvServer], tmp_path: Path, memory_dir: Path
):
    first, second = workers
    async with first.client() as one, second.client() as two:
        kept, lost = await one.open(EMMA), await two.open(EMMA)
        killed = pids(tmp_path)[1]
        os.kill(killed, signal.SIGKILL)
        fresh = await open_when_possible(two)
        assert fresh.env_server == second.grpc
        assert pids(tmp_path)[1] != killed
        # Whoever holds the lost one is told so by type, and runs it again.
        with pytest.raises(UnknownEpisode):
            await two.call(lost, "find_book", book_id="B-1")
        assert not (await one.call(kept, "find_book", book_id="B-1")).is_error
        assert await metric(first, "envfarm_episodes_live") == 2
        assert await metric(first, "envfarm_episodes_opened_total") == 3
        # The databases of the dead go with the sweep of the worker that follows it.
        await until(lambda: _leaks(first), "the sweep")
        # The Postgres under both dies: both fail their episodes and go on.
        (folder,) = folders(memory_dir)
        os.kill(postmaster(folder), signal.SIGKILL)
        again = [await open_when_possible(client) for client in (one, two)]
        assert {item.initial_state_hash for item in again} == {kept.initial_state_hash}
        for client, episode in ((one, kept), (two, fresh)):
            with pytest.raises(EnvfarmError, match="over"):
                await client.seal(episode)
        await wait_until_async(lambda: folder not in folders(memory_dir), "folder")
        # Their parent dies: nothing of it stays.
        running = pids(tmp_path).values()
        (folder,) = folders(memory_dir)
        first.process.kill()
        first.process.wait()
        gone = lambda: not any(Path(f"/proc/{pid}").exists() for pid in running)  # noqa: E731
        await wait_until_async(gone, "workers")
        await wait_until_async(lambda: not processes(folder), "postgres")


async def _same(found, expected: set[str]) -> bool:
    return set(await found) >= expected


async def _drains(client: EnvClient) -> bool:
    return (await client.capacity()).draining


async def _leaks(worker: EnvServer) -> bool:
    return await metric(worker, "envfarm_slots_leaked_total") > 0
