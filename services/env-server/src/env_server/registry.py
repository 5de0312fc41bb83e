"""Tells gateways where this env-server is: a heartbeat in Redis while it takes episodes.

The score of an address is Redis's own clock at its last heartbeat, so that no two clocks need agree.
Who drains or has no database leaves at once; who dies is forgotten after ENV_SERVER_SECONDS.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from envfarm.streams import ENV_SERVER_SECONDS, ENV_SERVERS
from envfarm_common import logging
from redis.asyncio import Redis
from redis.exceptions import RedisError

from env_server.cancel import cancel_all

log = logging.get(__name__)

HEARTBEAT_SECONDS = 2.0
ANSWER_SECONDS = 2.0


class Registry:
    """`run` until cancelled, then `leave`; `announced` does both. A Redis that does not answer is only
    logged."""

    def __init__(self, url: str, address: str, is_ready: Callable[[], bool]):
        self._client = Redis.from_url(
            url, socket_connect_timeout=ANSWER_SECONDS, socket_timeout=ANSWER_SECONDS
        )
        self._address = address
        self._is_ready = is_ready
        self._is_lost = False

    async def run(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def beat(self) -> None:
        """Say once whether this env-server takes episodes, and forget those that are silent."""
        try:
            if not self._is_ready():
                await self._client.zrem(ENV_SERVERS, self._address)
                return
            seconds, _ = await self._client.time()
            await self._client.zadd(ENV_SERVERS, {self._address: seconds})
            await self._client.zremrangebyscore(
                ENV_SERVERS, "-inf", f"({seconds - ENV_SERVER_SECONDS}"
            )
        except RedisError as error:
            if not self._is_lost:
                log.warning("not registered: redis does not answer", error=str(error))
            self._is_lost = True
            return
        if self._is_lost:
            log.info("registered again")
        self._is_lost = False

    async def leave(self) -> None:
        """No gateway finds this address any more."""
        with contextlib.suppress(RedisError):
            await self._client.zrem(ENV_SERVERS, self._address)
        await self._client.aclose()


@asynccontextmanager
async def announced(url: str, address: str, is_ready: Callable[[], bool]) -> AsyncIterator[None]:
    """Registered while it is entered and `is_ready` says so."""
    registry = Registry(url, address, is_ready)
    beating = asyncio.create_task(registry.run())
    try:
        yield
    finally:
        await cancel_all([beating])
        await registry.leave()
