"""Seats for attempts, divided fairly between the jobs that want them.

A free seat goes to the job that holds fewest for its share, and there to its oldest group. So an
evaluation beside training gets its part at once, and a job alone gets every seat.
"""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Rank = tuple[int, int]
"""(place of the group in its job, slot): lower goes first."""


class Seats:
    def __init__(self, limit: int):
        self._limit = limit
        self._held: Counter[str] = Counter()
        self._shares: dict[str, int] = {}
        self._waiting: dict[str, list[tuple[Rank, int, asyncio.Future[None]]]] = {}
        self._count = itertools.count()
        self._changed = asyncio.Event()

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        """A lower one is reached as attempts end; nobody is thrown out."""
        self._limit = limit
        self._grant()

    @property
    def held(self) -> int:
        return self._held.total()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def held_by(self, job_id: str) -> int:
        return self._held[job_id]

    @asynccontextmanager
    async def seat(self, job_id: str, share: int, rank: Rank) -> AsyncIterator[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (rank, next(self._count), future)
        self._shares[job_id] = share
        heapq.heappush(self._waiting.setdefault(job_id, []), entry)
        self._grant()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave(job_id)
            else:
                self._forget(job_id, entry)
            raise
        try:
            yield
        finally:
            self._leave(job_id)

    async def wait_until_hungry(self, job_id: str) -> None:
        """Returns when no attempt of the job waits for a seat: another group may open."""
        while self._waiting.get(job_id):
            self._changed.clear()
            await self._changed.wait()

    def _leave(self, job_id: str) -> None:
        self._held[job_id] -= 1
        self._grant()

    def _forget(self, job_id: str, entry: tuple[Rank, int, asyncio.Future[None]]) -> None:
        queue = self._waiting.get(job_id, [])
        if entry in queue:
            queue.remove(entry)
            heapq.heapify(queue)
        if not queue:
            self._waiting.pop(job_id, None)
        self._changed.set()

    def _grant(self) -> None:
        while self.held < self._limit and self._waiting:
            job_id = min(self._waiting, key=lambda job: self._held[job] / self._shares[job])
            queue = self._waiting[job_id]
            _, _, future = heapq.heappop(queue)
            if not queue:
                del self._waiting[job_id]
            if not future.done():
                self._held[job_id] += 1
                future.set_result(None)
        self._changed.set()
