"""Ready slots: clones made in the background, handed out in order, undone or dropped later.

When a pool falls under its low mark it is filled to its high mark, the pool that most wait for
first. Who asks an empty pool waits for the next slot. Cloning, undoing and dropping never run on
the path of a tool call, and drops wait while anybody waits for a slot.

A slot that is given back is undone and handed out again where its world may (`shuffle.py`) and
only to who agreed to that; on any doubt, and when it is worn, it is dropped.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping

import psycopg
from envfarm.errors import EnvfarmError, NoCapacity
from envfarm_common import logging
from envfarm_common.metrics import Instruments

from env_server import reset, shuffle
from env_server.cancel import cancel_all
from env_server.cluster import Cluster
from env_server.journal_evidence import Doubt
from env_server.slot import Slot
from env_server.template import Template

log = logging.get(__name__)

SWEEP_SECONDS = 30.0
RETRY_SECONDS = 1.0
RESET_SECONDS = 10.0
CLONES_AT_ONCE = 2
RESETS_AT_ONCE = 2
MAX_REUSES = 200
"""Dead rows pile up, as nothing is vacuumed; a fresh clone costs less."""
MAX_DEFERRED_DROPS = 32
DEFER_SECONDS = 0.1


class _Pool:
    def __init__(self, template: Template):
        self.template = template
        self.fresh: deque[Slot] = deque()
        self.reused: deque[Slot] = deque()
        self.waiting: deque[tuple[bool, asyncio.Future[tuple[Slot, str]]]] = deque()
        """Whether a used slot will do, and who waits."""
        self.cloning = 0
        self.filling = True
        """Set below the low mark, cleared at the high mark."""
        self.obstacle: str | None = None
        """Why slots may not be used again; empty when they may, None while nobody has asked."""
        self.proving: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> int:
        """How many wait."""
        return sum(not future.done() for _, future in self.waiting)


class Slots:
    """The pools of all worlds in one cluster; `close` drops whatever is left in them.

    `limit` is the most slots that are handed out or wait undone, all worlds together.
    """

    def __init__(
        self,
        cluster: Cluster,
        templates: Mapping[str, Template],
        *,
        low: int,
        high: int,
        limit: int,
        instruments: Instruments,
    ):
        self._cluster = cluster
        self._pools = {world_id: _Pool(item) for world_id, item in templates.items()}
        self._low, self._high, self._limit = low, high, limit
        self._instruments = instruments
        self._wake = asyncio.Event()
        self._wake.set()
        self._out: set[Slot] = set()
        """Handed out, or being undone."""
        self._resets: asyncio.Queue[Slot] = asyncio.Queue()
        self._worn: asyncio.Queue[Slot] = asyncio.Queue()
        """On their way to `_drops`, which may wait; their connections must not."""
        self._drops: asyncio.Queue[Slot] = asyncio.Queue()
        self._jobs = [
            *(asyncio.create_task(self._fill()) for _ in range(CLONES_AT_ONCE)),
            *(asyncio.create_task(self._reset()) for _ in range(RESETS_AT_ONCE)),
            asyncio.create_task(self._hang_up()),
            asyncio.create_task(self._drop()),
            asyncio.create_task(self._sweep()),
        ]

    async def take(self, world_id: str, *, may_reuse: bool) -> tuple[Slot, str]:
        """A slot and its source: ready, reused or cold; NoCapacity or DatabaseError when none
        can be made."""
        pool = self._pools[world_id]
        if may_reuse and pool.proving is None:
            pool.proving = asyncio.create_task(self._prove(pool))
            self._jobs.append(pool.proving)
        if may_reuse and (slot := self._pop(pool, pool.reused)):
            return slot, "reused"
        self._make_room()
        slot = self._pop(pool, pool.fresh)
        self._wake.set()
        if slot:
            return slot, "ready"
        future: asyncio.Future[tuple[Slot, str]] = asyncio.get_running_loop().create_future()
        pool.waiting.append((may_reuse, future))
        self._show(pool)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                self.give_back(future.result()[0])
            raise
        finally:
            self._show(pool)

    def give_back(self, slot: Slot, *, is_clean: bool = False) -> None:
        """The slot is not needed any more: undo it or drop it when there is time.

        `is_clean` says that its episode ended in order, with no call in flight.
        """
        pool = self._pools[slot.template.world.world_id]
        in_use = len(self._out) + sum(len(item.reused) for item in self._pools.values())
        if (
            is_clean
            and pool.obstacle == ""
            and slot.reuses < MAX_REUSES
            and in_use <= self._limit
            and not slot.connection.closed
        ):
            self._resets.put_nowait(slot)
        else:
            self._discard(slot, "worn" if slot.reuses >= MAX_REUSES else "not_reused")

    def ready(self) -> dict[str, int]:
        return {name: len(pool.fresh) + len(pool.reused) for name, pool in self._pools.items()}

    def obstacles(self) -> dict[str, str]:
        """Worlds that were asked for reuse and do not allow it, with the reason."""
        return {name: pool.obstacle for name, pool in self._pools.items() if pool.obstacle}

    async def close(self) -> None:
        """Stop the background work; those who wait get NoCapacity."""
        await cancel_all(self._jobs)
        left: list[Slot] = []
        for pool in self._pools.values():
            self._refuse(
                pool, NoCapacity("the database is being restarted", retry_after_seconds=1.0)
            )
            left += [*pool.fresh, *pool.reused]
            pool.fresh.clear()
            pool.reused.clear()
            self._show(pool)
        for queue in (self._worn, self._drops, self._resets):
            while not queue.empty():
                left.append(queue.get_nowait())
        for slot in left:
            await self._cluster.hang_up(slot)

    def _pop(self, pool: _Pool, ready: deque[Slot]) -> Slot | None:
        """The first of `ready`, one of the pool's two, whose connection still stands."""
        while ready:
            slot = ready.popleft()
            self._out.add(slot)
            self._show(pool)
            if not slot.connection.closed:
                return slot
            self._discard(slot, "not_reused")
        return None

    def _make_room(self) -> None:
        """Undone slots that lie ready give way to an open that needs an untouched one."""
        idle = [pool for pool in self._pools.values() if pool.reused]
        while idle and len(self._out) + sum(len(pool.reused) for pool in idle) >= self._limit:
            fullest = max(idle, key=lambda pool: len(pool.reused))
            self._discard(fullest.reused.popleft(), "not_reused")
            self._show(fullest)
            idle = [pool for pool in idle if pool.reused]

    def _discard(self, slot: Slot, outcome: str) -> None:
        self._out.discard(slot)
        world = slot.template.world.world_id
        self._instruments.count("envfarm_slot_returns_total", world=world, outcome=outcome)
        self._worn.put_nowait(slot)

    async def _prove(self, pool: _Pool) -> None:
        world = pool.template.world.world_id
        try:
            pool.obstacle = await shuffle.obstacle(self._cluster, pool.template)
        except (EnvfarmError, psycopg.Error) as error:
            log.error("the shuffle test failed", world=world, error=str(error))
            pool.obstacle = f"the shuffle test failed: {error}"
        if pool.obstacle:
            log.warning("slots are not used again", world=world, reason=pool.obstacle)

    async def _fill(self) -> None:
        while True:
            wanting = [pool for pool in self._pools.values() if self._wants(pool)]
            if not wanting:
                self._wake.clear()
                await self._wake.wait()
                continue
            pool = max(wanting, key=lambda item: len(item.waiting) - len(item.fresh))
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
            self._hand_out(pool, slot, is_fresh=True)

    def _wants(self, pool: _Pool) -> bool:
        coming = len(pool.fresh) + pool.cloning - pool.wanted
        if coming < self._low:
            pool.filling = True
        if coming >= self._high:
            pool.filling = False
        return pool.filling or coming < 0

    def _hand_out(self, pool: _Pool, slot: Slot, *, is_fresh: bool) -> None:
        for place, (may_reuse, future) in enumerate(pool.waiting):
            if not future.done() and (is_fresh or may_reuse):
                del pool.waiting[place]
                self._out.add(slot)
                future.set_result((slot, "cold" if is_fresh else "reused"))
                return
        self._out.discard(slot)
        (pool.fresh if is_fresh else pool.reused).append(slot)
        self._show(pool)

    def _refuse(self, pool: _Pool, error: EnvfarmError) -> None:
        while pool.waiting:
            _, future = pool.waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def _show(self, pool: _Pool) -> None:
        world, ready = pool.template.world.world_id, len(pool.fresh) + len(pool.reused)
        self._instruments.set("envfarm_slots_ready", ready, world=world)
        self._instruments.set("envfarm_opens_waiting", pool.wanted, world=world)

    async def _reset(self) -> None:
        while True:
            slot = await self._resets.get()
            world = slot.template.world.world_id
            begin = time.monotonic()
            try:
                async with asyncio.timeout(RESET_SECONDS):
                    await self._cluster.reset(
                        slot, full=slot.reuses % reset.FULL_EVERY == reset.FULL_EVERY - 1
                    )
            except (Doubt, psycopg.Error, TimeoutError) as error:
                log.warning("slot dropped on a doubt", slot=slot.name, reason=str(error))
                self._discard(slot, "doubt")
                continue
            slot.reuses += 1
            self._instruments.observe(
                "envfarm_reset_seconds", time.monotonic() - begin, world=world
            )
            self._instruments.count("envfarm_slot_returns_total", world=world, outcome="reused")
            self._hand_out(self._pools[world], slot, is_fresh=False)

    async def _hang_up(self) -> None:
        while True:
            slot = await self._worn.get()
            await self._cluster.hang_up(slot)
            self._drops.put_nowait(slot)

    async def _drop(self) -> None:
        while True:
            slot = await self._drops.get()
            while self._drops.qsize() < MAX_DEFERRED_DROPS and self._has_waiting():
                await asyncio.sleep(DEFER_SECONDS)
            try:
                await self._cluster.drop(slot)
            except psycopg.Error as error:
                log.warning("drop failed; the sweep tries again", slot=slot.name, error=str(error))
                self._cluster.disown(slot)

    def _has_waiting(self) -> bool:
        return any(pool.waiting for pool in self._pools.values())

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
