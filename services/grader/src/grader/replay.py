"""Same request id, same answer: a grading is done once and its verdict replayed."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from envfarm.errors import InvalidArgument

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    fingerprint: str
    task: asyncio.Task[T]


class Replay(Generic[T]):
    """The last `capacity` answers; a failed attempt is forgotten, so that it may be sent again."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()

    async def answer(
        self, request_id: str, fingerprint: str, make: Callable[[], Awaitable[T]]
    ) -> T:
        """The answer to `request_id`, made once; InvalidArgument when the id named other content."""
        entry = self._entries.get(request_id)
        if entry is None:
            # A task of its own: the caller who goes away must not take others' answer along.
            task = asyncio.ensure_future(make())
            entry = self._entries[request_id] = _Entry(fingerprint, task)
            task.add_done_callback(lambda done: self._settle(request_id, done))
        elif entry.fingerprint != fingerprint:
            raise InvalidArgument(
                f"request_id {request_id!r} was used for another request",
                hint="use a new request_id for each attempt",
            )
        return await asyncio.shield(entry.task)

    def _settle(self, request_id: str, done: "asyncio.Future[T]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._entries.pop(request_id, None)
        done_ids = [key for key, entry in self._entries.items() if entry.task.done()]
        for key in done_ids[: max(0, len(self._entries) - self._capacity)]:
            del self._entries[key]
