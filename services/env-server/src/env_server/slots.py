"""Ready slots: clones made in the background, handed out in order, dropped later.

When a pool falls under its low mark it is filled to its high mark. Who asks an empty pool waits for
the next clone. Cloning and dropping never run on the path of a tool call.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Mapping

import psycopg
from envfarm.errors import EnvfarmError, NoCapacity
from envfarm_common import logging
from envfarm_common.metrics import Instruments

from env_server.cancel import cancel_all
from env_server.cluster import Cluster, Slot
from env_server.template import Template

log = logging.get(__name__)

SWEEP_SECONDS = 30.0
RETRY_SECONDS = 1.0
CLONES_AT_ONCE = 2


class _Pool:
    def __init__(self, template: Template):
        self.template = template
        self.ready: deque[Slot] = deque()
        self.waiting: deque[asyncio.Future[Slot]] = deque()
        self.cloning = 0
        self.filling = True
        """Set below the low mark, cleared at the high mark."""


class Slots:
    """The pools of all worlds in one cluster; `close` drops whatever is left in them."""

    def __init__(
        self,
        cluster: Cluster,
        templates: Mapping[str, Template],
        *,
        low: int,
        high: int,
        instruments: Instruments,
    ):
        self._cluster = cluster
        self._pools = {world_id: _Pool(item) for world_id, item in templates.items()}
        self._low, self._high = low, high
        self._instruments = instruments
        self._wake = asyncio.Event()
        self._wake.set()
        self._drops: asyncio.Queue[Slot] = asyncio.Queue()
        self._jobs = [
            *(asyncio.create_task(self._fill()) for _ in range(CLONES_AT_ONCE)),
            asyncio.create_task(self._drop()),
            asyncio.create_task(self._sweep()),
        ]

    async def take(self, world_id: str) -> tuple[Slot, str]:
        """A slot and its source, ready or cold; DatabaseError when it cannot be cloned."""
        pool = self._pools[world_id]
        while pool.ready:
            slot = pool.ready.popleft()
            self._wake.set()
            self._show(pool)
            if not slot.connection.closed:
                return slot, "ready"
            self.give_back(slot)
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        pool.waiting.append(future)
        self._wake.set()
        try:
            return await future, "cold"
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                self.give_back(future.result())
            raise

    def give_back(self, slot: Slot) -> None:
        """The slot is not needed any more: drop it when there is time."""
        self._drops.put_nowait(slot)

    def ready(self) -> dict[str, int]:
        return {world_id: len(pool.ready) for world_id, pool in self._pools.items()}

    async def close(self) -> None:
        """Stop the background work; those who wait get NoCapacity."""
        await cancel_all(self._jobs)
        for pool in self._pools.values():
            self._refuse(
                pool, NoCapacity("the database is being restarted", retry_after_seconds=1.0)
            )
            for slot in pool.ready:
                with contextlib.suppress(psycopg.Error):
                    await slot.connection.close()
            pool.ready.clear()
            self._show(pool)
        while not self._drops.empty():
            with contextlib.suppress(psycopg.Error):
                await self._drops.get_nowait().connection.close()

    async def _fill(self) -> None:
        while True:
            pool = next((pool for pool in self._pools.values() if self._wants(pool)), None)
            if pool is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            pool.cloning += 1
            begin = time.monotonic()
            try:
                slot = await self._cluster.clone(pool.template)
            except EnvfarmError as error:
                log.error("clone failed", world=pool.template.world.world_id, error=error.message)
                self._refuse(pool, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            finally:
                pool.cloning -= 1
            self._instruments.observe(
                "envfarm_clone_seconds",
                time.monotonic() - begin,
                world=pool.template.world.world_id,
            )
            self._hand_out(pool, slot)

    def _wants(self, pool: _Pool) -> bool:
        waiting = sum(not future.done() for future in pool.waiting)
        coming = len(pool.ready) + pool.cloning - waiting
        if coming < self._low:
            pool.filling = True
        if coming >= self._high:
            pool.filling = False
        return pool.filling or coming < 0

    def _hand_out(self, pool: _Pool, slot: Slot) -> None:
        while pool.waiting:
            future = pool.waiting.popleft()
            if not future.done():
                future.set_result(slot)
                return
        pool.ready.append(slot)
        self._show(pool)

    def _refuse(self, pool: _Pool, error: EnvfarmError) -> None:
        while pool.waiting:
            future = pool.waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def _show(self, pool: _Pool) -> None:
        self._instruments.set(
            "envfarm_slots_ready", len(pool.ready), world=pool.template.world.world_id
        )

    async def _drop(self) -> None:
        while True:
            slot = await self._drops.get()
            try:
                await self._cluster.drop(slot)
            except psycopg.Error as error:
                log.warning("drop failed; the sweep tries again", slot=slot.name, error=str(error))
                self._cluster.disown(slot)

    async def _sweep(self) -> None:
        while True:
            try:
                leaked = await self._cluster.sweep()
            except psycopg.Error as error:
                log.warning("sweep failed", error=str(error))
            else:
                if leaked:
                    log.warning("swept leaked databases", databases=leaked)
                    self._instruments.count("envfarm_slots_leaked_total", leaked)
            await asyncio.sleep(SWEEP_SECONDS)
