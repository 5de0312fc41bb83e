"""A drain refuses opens at once and waits for what is open, within its limit."""

import asyncio
from types import SimpleNamespace
from typing import Any

from env_server import draining
from env_server.app import reachable


def episodes(live: int) -> Any:
    return SimpleNamespace(draining=False, live_count=live, has_database=True)


async def test_it_waits_until_the_last_episode_has_ended():
    some = episodes(2)
    waiting = asyncio.create_task(draining.until_empty(some, 30))
    await asyncio.sleep(0)
    assert some.draining
    some.live_count = 1
    await asyncio.sleep(2 * draining.POLL_SECONDS)
    assert not waiting.done()
    some.live_count = 0
    await asyncio.wait_for(waiting, 5)


async def test_it_gives_up_at_its_limit():
    await asyncio.wait_for(draining.until_empty(episodes(1), 0.1), 5)


async def test_it_does_not_wait_for_episodes_whose_database_is_gone():
    some = episodes(1)
    some.has_database = False
    await asyncio.wait_for(draining.until_empty(some, 30), 5)


async def test_without_a_limit_it_does_not_wait():
    some = episodes(1)
    await asyncio.wait_for(draining.until_empty(some, 0), 1)
    assert some.draining


def test_a_wildcard_is_told_as_an_address_that_others_can_reach():
    assert reachable("127.0.0.1") == "127.0.0.1"
    assert reachable("0.0.0.0") not in ("0.0.0.0", "")
