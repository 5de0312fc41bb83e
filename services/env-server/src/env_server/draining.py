"""The first part of a clean end: no new episode, and time for those that are open."""

import asyncio

from envfarm_common import logging

from env_server.episodes import Episodes

log = logging.get(__name__)

POLL_SECONDS = 0.05


async def until_empty(episodes: Episodes, seconds: float) -> None:
    """Refuse opens from now on; return once no episode is open or its database is gone, at the
    latest after `seconds`."""
    episodes.draining = True
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    if seconds and episodes.live_count:
        log.info("draining", episodes=episodes.live_count, seconds=seconds)
    while episodes.live_count and episodes.has_database and loop.time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
    if seconds and episodes.live_count:
        log.warning("drain ran out of time", episodes=episodes.live_count)
