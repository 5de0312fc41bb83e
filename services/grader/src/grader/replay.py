"""Same request id, same answer: a grading is done once, by one process, and its verdict replayed."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from envfarm.errors import GraderError, InvalidArgument

from grader.claims import Claims
from grader.record_store import RecordStore

Record = dict[str, Any]
POLL_SECONDS = 0.02


@dataclass(slots=True)
class _Entry:
    fingerprint: str
    task: asyncio.Task[Record]


class Replay:
    """Answers by request id: those of this process in memory, those of all processes on disk.

    A failed attempt is forgotten, so that it may be sent again.
    """

    def __init__(self, store: RecordStore, claims: Claims, capacity: int, wait_seconds: float):
        self._store = store
        self._claims = claims
        self._capacity = capacity
        self._wait_seconds = wait_seconds
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def answer(
        self, request_id: str, fingerprint: str, make: Callable[[], Awaitable[Record]]
    ) -> Record:
        """The record that answers `request_id`, made once; it holds `fingerprint`. InvalidArgument
        when the id named other content, GraderError when another process does not get done."""
        entry = self._entries.get(request_id)
        if entry is None:
            # A task of its own: the caller who goes away must not take others' answer along.
            task = asyncio.ensure_future(self._claimed(request_id, fingerprint, make))
            entry = self._entries[request_id] = _Entry(fingerprint, task)
            task.add_done_callback(lambda done: self._settle(request_id, done))
        elif entry.fingerprint != fingerprint:
            raise _other_content(request_id)
        return await asyncio.shield(entry.task)

    async def _claimed(
        self, request_id: str, fingerprint: str, make: Callable[[], Awaitable[Record]]
    ) -> Record:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        while not self._claims.take(request_id):
            if loop.time() > deadline:
                raise GraderError(
                    f"request_id {request_id!r} is being graded by another process still",
                    retry_after_seconds=1.0,
                )
            await asyncio.sleep(POLL_SECONDS)
        try:
            known = self._store.by_request(request_id)
            if known is None:
                return await make()
            if known["fingerprint"] != fingerprint:
                raise _other_content(request_id)
            return known
        finally:
            self._claims.release(request_id)

    def _settle(self, request_id: str, done: "asyncio.Future[Record]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._entries.pop(request_id, None)
        while len(self._entries) > self._capacity:
            oldest = next((key for key, entry in self._entries.items() if entry.task.done()), None)
            if oldest is None:
                break
            del self._entries[oldest]


def _other_content(request_id: str) -> InvalidArgument:
    return InvalidArgument(
        f"request_id {request_id!r} was used for another request",
        hint="use a new request_id for each attempt",
    )
