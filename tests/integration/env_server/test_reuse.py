"""Slots that are used again: only where the world allows it and the client agreed."""

import asyncio
import re
from pathlib import Path

import httpx
import psycopg
import pytest
from envfarm.v1 import episode_pb2

from tests.support.domains import orders_alone
from tests.support.env_server import SHELF, EnvClient, running_env_server
from tests.support.given_postgres import given_postgres

TASK = "orders/cancel-placed"
FRESH, REUSE = episode_pb2.SLOT_MODE_FRESH, episode_pb2.SLOT_MODE_REUSE


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return orders_alone(tmp_path_factory.mktemp("domains"))


async def whole_episode(client: EnvClient, mode: int) -> tuple[int, str, list[str]]:
    """Slot mode that was handed out, initial hash, and the changes that a cancellation made."""
    episode = await client.open(TASK, slot_mode=mode)
    answer = await client.call(episode, "cancel_order", order_id="O-1027")
    assert not answer.is_error, answer.content
    await client.seal(episode)
    header, changes, _ = await client.evidence(episode)
    assert header.initial_state_hash == episode.initial_state_hash
    await client.close(episode)
    return (
        episode.slot_mode,
        episode.initial_state_hash,
        [change.after_json for change in changes],
    )


async def test_a_slot_is_used_again_after_an_undo_and_only_for_who_agreed(orders: Path):
    with running_env_server(orders, ready_low=1, ready_high=1, max_episodes=2) as server:
        async with server.client() as client:
            first = await whole_episode(client, REUSE)
            assert first[0] == FRESH
            seen = [first]
            async with asyncio.timeout(60):
                while sum(mode == REUSE for mode, _, _ in seen) < 5:
                    seen.append(await whole_episode(client, REUSE))
            assert {hash_ for _, hash_, _ in seen} == {first[1]}
            assert all(changes == first[2] for _, _, changes in seen)
            for mode in (FRESH, episode_pb2.SLOT_MODE_UNSPECIFIED):
                assert await whole_episode(client, mode) == first
            assert not (await client.capacity()).not_reused.get("orders")


async def test_the_gauge_of_ready_slots_follows_what_is_taken_given_back_and_discarded(
    orders: Path,
):
    """With three slots undone, opens that take them, and one that needs an untouched one."""
    with running_env_server(orders, ready_low=1, ready_high=1, max_episodes=3) as server:
        async with server.client() as client, httpx.AsyncClient(base_url=server.http) as web:

            async def told() -> tuple[float, int]:
                ready = (await client.capacity()).ready_slots["orders"]
                text = (await web.get("/metrics")).text
                shown = re.search(r'^envfarm_slots_ready{.*world="orders".*} (.+)$', text, re.M)
                assert shown
                return float(shown[1]), ready

            opened: list[episode_pb2.Episode] = []
            async with asyncio.timeout(60):
                while (await client.capacity()).ready_slots["orders"] < 4:
                    opened = [await client.open(TASK, slot_mode=REUSE) for _ in range(3)]
                    for episode in opened:
                        await client.close(episode)
            for mode in (REUSE, FRESH, REUSE):
                await client.open(TASK, slot_mode=mode)
                async with asyncio.timeout(30):
                    # A clone may come between the two answers.
                    while (seen := await told())[0] != seen[1]:
                        await asyncio.sleep(0.05)
            assert (await told())[1] < 4


async def test_an_open_that_waits_for_a_clone_is_told_although_a_used_slot_lies_ready(orders: Path):
    with (
        given_postgres() as dsn,
        running_env_server(
            orders, ready_low=1, ready_high=1, max_episodes=3, backend="server", dsn=dsn
        ) as server,
    ):
        async with server.client() as client, httpx.AsyncClient(base_url=server.http) as web:

            async def told() -> dict[str, float]:
                text = (await web.get("/metrics")).text
                found = re.findall(r"^envfarm_(\w+){.*world=\"orders\".*} (\d\S*)$", text, re.M)
                names = ("opens_waiting", "slots_ready")
                return {name: float(value) for name, value in found if name in names}

            async with asyncio.timeout(60):
                while (await whole_episode(client, REUSE))[0] != REUSE:
                    pass
                while (used := await told())["slots_ready"] < 1 or used["opens_waiting"]:
                    await asyncio.sleep(0.05)
                async with await psycopg.AsyncConnection.connect(dsn) as connection:
                    await connection.execute("LOCK TABLE pg_database IN SHARE ROW EXCLUSIVE MODE")
                    asked = [asyncio.create_task(client.open(TASK)) for _ in range(2)]
                    while (seen := await told())["opens_waiting"] < 1:
                        await asyncio.sleep(0.05)
                    assert seen["slots_ready"] >= 1
                await asyncio.gather(*asked)
                while (await told())["opens_waiting"]:
                    await asyncio.sleep(0.05)


async def test_a_world_that_answers_by_physical_order_always_gets_fresh_clones_and_says_why():
    with running_env_server(SHELF, ready_low=1, ready_high=1) as server:
        async with server.client() as client:
            async with asyncio.timeout(60):
                while not (reason := (await client.capacity()).not_reused.get("shelf", "")):
                    episode = await client.open("shelf/lend-emma", slot_mode=REUSE)
                    assert episode.slot_mode == FRESH
                    await client.close(episode)
            assert "read_sql" in reason
