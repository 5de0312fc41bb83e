"""Imported tasks in episodes: each gets its own init, and nothing of a right answer is within reach."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.env_server import EnvClient, EnvServer, running_env_server
from tests.support.hosted_worlds import import_desk, pin_desk

BADGE, LAPTOP, NOTHING = ("desk_tasks/test_" + name for name in ("badge", "laptop", "nothing"))


@pytest.fixture(scope="module")
def worlds() -> Iterator[Path]:
    """In a folder that the accounts of servers can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        found = import_desk(Path(name))
        pin_desk(found)
        yield found


@pytest.fixture(scope="module")
def server(worlds: Path) -> Iterator[EnvServer]:
    with tempfile.TemporaryDirectory() as name:
        with running_env_server(worlds, Path(name), ready_low=1, ready_high=2) as server:
            yield server


@pytest.fixture
async def client(server: EnvServer) -> AsyncIterator[EnvClient]:
    async with server.client() as client:
        yield client
        for episode_id in client.opened:
            await client.close(episode_id)


async def tickets(client: EnvClient, episode) -> list:
    return json.loads((await client.call(episode, "list_tickets")).content)


async def test_each_task_begins_with_its_own_init(client: EnvClient):
    badge, laptop = await asyncio.gather(client.open(BADGE), client.open(LAPTOP))
    assert badge.task.opening == "I lost my badge."
    assert [tool.name for tool in badge.task.tools] == [
        *("list_tickets", "open_ticket", "today", "search_policy")
    ]
    chair = {"id": 1, "about": "chair"}
    assert await tickets(client, badge) == [chair, {"id": 7, "about": "keyboard"}]
    assert await tickets(client, laptop) == [chair]
    again = await client.open(BADGE)
    assert again.initial_state_hash == badge.initial_state_hash != laptop.initial_state_hash


async def test_the_golden_calls_give_the_golden_result_and_no_server_knows_them(client: EnvClient):
    golden, idle = await asyncio.gather(client.open(BADGE), client.open(BADGE))
    await client.call(golden, "open_ticket", about="badge")
    told = []
    for episode in (golden, idle):
        await client.seal(episode)
        _, changes, tables = await client.evidence(episode, "server_effects")
        assert bool(changes) == (episode is golden)
        told.append(tables["server_effects"][0]["effects"])
    assert told[0]["result_db_state"]["tickets"][-1] == {"id": 8, "about": "badge"}
    assert told[0]["result_db_hash"] != told[1]["result_db_hash"]
    for effects in told:
        assert effects["golden_db_hash"] == told[1]["result_db_hash"]
        assert effects["rubrics_yesno"] == [] and effects["rubrics"] == {}


async def test_the_clock_inside_is_the_worlds(client: EnvClient):
    episode = await client.open(NOTHING)
    told = json.loads((await client.call(episode, "today")).content)
    assert told == {
        "date": "2025-10-01",
        "utc": "2025-10-01T13:00:00+00:00",
        "naive": "2025-10-01T13:00:00",
        "time": 1759323600.0,
        "year": 2025,
        "text": "2025-10-01",
        "is_kind": True,
        "loop": True,
    }
