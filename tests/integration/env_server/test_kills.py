"""Kills at bad moments: nothing outlives its owner plus one sweep."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from envfarm.errors import DatabaseError, EnvfarmError, NoCapacity

from tests.support.env_server import (
    SHELF,
    EnvClient,
    EnvServer,
    running_env_server,
    start_env_server,
)
from tests.support.given_postgres import given_postgres
from tests.support.postgres_traces import (
    folders,
    instances,
    names,
    postmaster,
    processes,
    segment,
    shared_memory,
    wait_until,
    wait_until_async,
)

EMMA = "shelf/lend-emma"


@pytest.fixture
def memory_dir() -> Iterator[Path]:
    """A memory-backed folder of this test alone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


async def open_when_possible(client: EnvClient, seconds: float = 30.0):
    """Opens are refused with a hint while the database is restarted; do as the hint says."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await client.open(EMMA)
            except NoCapacity as error:
                assert error.retry_after_seconds > 0
                await asyncio.sleep(0.05)


async def test_a_killed_postgres_fails_its_episodes_and_is_replaced(memory_dir: Path):
    with running_env_server(memory_dir=memory_dir) as server:
        async with server.client() as client:
            running, sealed = await client.open(EMMA), await client.open(EMMA)
            await client.seal(sealed)
            call = asyncio.create_task(client.call(running, "misbehave", how="sleep", seconds=9))
            await client.capacity()
            (folder,) = folders(memory_dir)
            os.kill(postmaster(folder), signal.SIGKILL)
            with pytest.raises(DatabaseError):
                await call
            # An episode that opens before the end is noticed ends with the old one.
            await wait_until_async(lambda: folder not in folders(memory_dir), "the old folder")
            fresh = await open_when_possible(client)
            assert fresh.initial_state_hash == running.initial_state_hash
            for episode in (running, sealed):
                with pytest.raises(DatabaseError):
                    await client.seal(episode)
                with pytest.raises(DatabaseError):
                    await client.evidence(episode)
            assert not (await client.call(fresh, "find_book", book_id="B-1")).is_error
            assert (await client.capacity()).live_episodes == 1
            # The old folder is gone with its processes; one new one serves.
            assert [item for item in folders(memory_dir) if item == folder] == []
            assert len(folders(memory_dir)) == 1
            assert processes(folder) == []


async def test_a_postgres_that_is_killed_again_and_again_leaves_nothing(memory_dir: Path):
    segments = set()
    with running_env_server(memory_dir=memory_dir) as server:
        async with server.client() as client:
            for _ in range(3):
                await open_when_possible(client)
                (folder,) = folders(memory_dir)
                segments.add(segment(folder))
                os.kill(postmaster(folder), signal.SIGKILL)
                await wait_until_async(lambda: folder not in folders(memory_dir), "folder")  # noqa: B023
            await open_when_possible(client)
    assert folders(memory_dir) == []
    assert len(segments) == 3
    assert segments & shared_memory() == set()


def test_a_stop_leaves_nothing_and_exits_0(memory_dir: Path, place: Path):
    server = start_env_server(SHELF, place, memory_dir=memory_dir)
    (folder,) = folders(memory_dir)
    assert len(processes(folder)) > 1
    assert server.stop() == 0
    assert folders(memory_dir) == []
    assert processes(folder) == []
    assert not (place / "ready.json").exists()


async def test_a_stop_with_live_episodes_and_a_running_call_leaves_nothing(memory_dir: Path):
    with running_env_server(memory_dir=memory_dir, call_deadline_seconds=60) as server:
        async with server.client() as client:
            episodes = [await client.open(EMMA) for _ in range(3)]
            await client.seal(episodes[0])
            call = asyncio.create_task(
                client.call(episodes[1], "misbehave", how="sleep", seconds=50)
            )
            await client.capacity()
            assert await asyncio.to_thread(server.stop) == 0
            with pytest.raises(EnvfarmError):
                await call
    assert folders(memory_dir) == []


async def test_a_killed_env_server_takes_its_postgres_along(memory_dir: Path, place: Path):
    server = start_env_server(SHELF, place, memory_dir=memory_dir)
    async with server.client() as client:
        await client.open(EMMA)
        (folder,) = folders(memory_dir)
        server.process.kill()
        server.process.wait()
        await wait_until_async(lambda: processes(folder) == [], "Postgres of a dead owner")
    # Its files wait for the next start of any env-server.
    assert folders(memory_dir) == [folder]
    with running_env_server(memory_dir=memory_dir):
        assert folder not in folders(memory_dir)
        assert len(folders(memory_dir)) == 1
    assert folders(memory_dir) == []


async def test_a_tool_that_kills_the_env_server_changes_nothing_elsewhere(memory_dir: Path):
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(running_env_server(memory_dir=memory_dir))
        second = stack.enter_context(running_env_server(memory_dir=memory_dir))
        async with first.client() as one, second.client() as two:
            mine, theirs = await one.open(EMMA), await two.open(EMMA)
            with pytest.raises(DatabaseError):
                await one.call(mine, "misbehave", how="kill_self")
            assert not (await two.call(theirs, "find_book", book_id="B-1")).is_error
            with running_env_server(memory_dir=memory_dir):
                # The sweep of a third took the dead one's files, not the living one's.
                assert len(folders(memory_dir)) == 2
            assert not (await two.call(theirs, "find_book", book_id="B-1")).is_error


def kill_while_starting(place: Path, memory_dir: Path, seconds: float) -> EnvServer:
    server = start_env_server(SHELF, place, wait=False, memory_dir=memory_dir)
    with contextlib.suppress(AssertionError):
        wait_until(lambda: (place / "ready.json").exists(), "ready", seconds)
    server.process.kill()
    server.process.wait()
    return server


@pytest.mark.parametrize("seconds", [0.5, 0.9, 1.3])
def test_a_kill_while_starting_leaves_no_process(memory_dir: Path, place: Path, seconds: float):
    kill_while_starting(place, memory_dir, seconds)
    wait_until(lambda: processes(memory_dir) == [], "processes of a dead start")


def test_a_stop_while_starting_exits_cleanly(memory_dir: Path, place: Path):
    server = start_env_server(SHELF, place, wait=False, memory_dir=memory_dir)
    wait_until(lambda: folders(memory_dir), "its folder")
    assert server.stop() == 0
    assert folders(memory_dir) == []


async def test_a_given_postgres_is_left_as_it_was(place: Path):
    with given_postgres() as dsn:
        server = start_env_server(SHELF, place, backend="server", dsn=dsn)
        async with server.client() as client:
            await client.open(EMMA)
            assert len(instances(dsn)) == 1
            assert server.stop() == 0
        assert names(dsn) == set()


async def test_the_next_env_server_drops_what_a_killed_one_left(place: Path):
    with given_postgres() as dsn:
        server = start_env_server(SHELF, place, backend="server", dsn=dsn)
        async with server.client() as client:
            for _ in range(3):
                await client.open(EMMA)
            left = instances(dsn)
            server.process.kill()
            server.process.wait()
        assert len(names(dsn)) >= 5
        with running_env_server(backend="server", dsn=dsn):
            await wait_until_async(lambda: not left & instances(dsn), "sweep")
        assert names(dsn) == set()


async def test_a_living_neighbour_on_the_same_postgres_is_not_swept():
    with given_postgres() as dsn, contextlib.ExitStack() as stack:
        first = stack.enter_context(running_env_server(backend="server", dsn=dsn))
        async with first.client() as client:
            episode = await client.open(EMMA)
            with running_env_server(backend="server", dsn=dsn) as second:
                async with second.client() as other:
                    await other.open(EMMA)
                    assert len(instances(dsn)) == 2
            assert len(instances(dsn)) == 1
            assert not (await client.call(episode, "find_book", book_id="B-1")).is_error


async def test_a_given_postgres_that_drops_every_connection_is_taken_up_again(place: Path):
    with given_postgres() as dsn:
        with running_env_server(backend="server", dsn=dsn) as server:
            async with server.client() as client:
                episode = await client.open(EMMA)
                before = instances(dsn)
                with psycopg.connect(dsn, autocommit=True) as conn:
                    conn.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                    )
                await wait_until_async(lambda: not before & instances(dsn), "old label")
                fresh = await open_when_possible(client)
                assert not (await client.call(fresh, "find_book", book_id="B-1")).is_error
                with pytest.raises(DatabaseError):
                    await client.call(episode, "find_book", book_id="B-1")
        assert names(dsn) == set()
