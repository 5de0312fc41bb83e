"""Keeper connections: a superuser's look into a slot, for evidence and undo, out of agents' reach.

Each costs a backend, so there are only so many; the one that was not used for longest makes room.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection

from env_server.slot import Slot


class Keepers:
    """`open_one` connects to a slot's database; at most `limit` are open at a time."""

    def __init__(self, open_one: Callable[[Slot], Awaitable[AsyncConnection[Any]]], limit: int):
        self._open_one = open_one
        self._free = asyncio.Semaphore(limit)
        self._idle: OrderedDict[str, Slot] = OrderedDict()

    @asynccontextmanager
    async def of(self, slot: Slot) -> AsyncIterator[AsyncConnection[Any]]:
        """The slot's keeper, for one user at a time; it is closed when its use fails."""
        async with slot.keeping:
            await self._take(slot)
            assert slot.keeper
            try:
                yield slot.keeper
            except BaseException:
                await self._shut(slot)
                raise
            self._idle[slot.name] = slot
            if self._free.locked():
                # Somebody waits for room.
                await self._evict()

    async def close(self, slot: Slot) -> None:
        """Shut the slot's keeper, if it has one."""
        async with slot.keeping:
            if slot.keeper:
                self._idle.pop(slot.name, None)
                await self._shut(slot)

    async def _take(self, slot: Slot) -> None:
        self._idle.pop(slot.name, None)
        if slot.keeper and slot.keeper.closed:
            await self._shut(slot)
        if slot.keeper:
            return
        if self._free.locked():
            await self._evict()
        await self._free.acquire()
        try:
            slot.keeper = await self._open_one(slot)
        except BaseException:
            self._free.release()
            raise

    async def _evict(self) -> None:
        if self._idle:
            _, oldest = self._idle.popitem(last=False)
            await self._shut(oldest)

    async def _shut(self, slot: Slot) -> None:
        keeper, slot.keeper = slot.keeper, None
        if keeper:
            self._free.release()
            with contextlib.suppress(psycopg.Error):
                await keeper.close()
