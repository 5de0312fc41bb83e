"""An HTTP request whose client is watched: who hangs up has left, whatever the request is waiting for."""

import asyncio
import json
from typing import Self

from starlette.types import Message, Receive

from env_server.cancel import cancel_all

_CANCELLED = "notifications/cancelled"
_SMALL = 4096
"""A cancellation is short; longer bodies are not kept."""


class WatchedRequest:
    """`receive` passes on what the client sends; `left` is set when it hangs up. `async with`."""

    def __init__(self, receive: Receive):
        self._receive = receive
        self._messages: asyncio.Queue[Message] = asyncio.Queue(maxsize=1)
        self._body = b""
        self.left = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_all([self._watching])

    async def receive(self) -> Message:
        return await self._messages.get()

    def cancels(self) -> str | int | None:
        """The JSON-RPC id of the request that this one says is cancelled."""
        if _CANCELLED.encode() not in self._body or len(self._body) > _SMALL:
            return None
        try:
            said = json.loads(self._body)
        except ValueError:
            return None
        if not isinstance(said, dict) or said.get("method") != _CANCELLED:
            return None
        found = (said.get("params") or {}).get("requestId")
        return found if isinstance(found, str | int) else None

    async def _watch(self) -> None:
        while not self.left.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.left.set()
            elif len(self._body) <= _SMALL:
                self._body += message.get("body", b"")[: _SMALL + 1]
            await self._messages.put(message)
