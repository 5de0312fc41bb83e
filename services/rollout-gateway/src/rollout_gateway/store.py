"""GroupStore, write side: where the bytes of groups lie until the learner has trained on them.

Keys name their content, so putting the same group again changes nothing, and another writing of it
never replaces bytes that a stream entry points at.
"""

import os
from pathlib import Path
from typing import Any, Protocol

import redis.asyncio as redis
from envfarm import streams
from envfarm.errors import StreamError, boundary
from redis.exceptions import RedisError


class GroupStore(Protocol):
    async def put(self, link: Any, run_id: str, group_id: str, sha256: str, data: bytes) -> str:
        """Keep the bytes; returns the key that a reader asks for. `link` is the Redis connection."""
        ...


class RedisStore:
    """Bytes in a Redis key of their own, as durable as the connection's next confirmation."""

    async def put(
        self, link: "redis.Redis", run_id: str, group_id: str, sha256: str, data: bytes
    ) -> str:
        key = f"{streams.group_key(run_id, group_id)}:{sha256[:16]}"
        with boundary(StreamError, f"storing group {group_id}", RedisError, OSError):
            await link.set(key, data)
        return key


class FolderStore:
    """Bytes in a file of a folder that gateway and learner share, on disk before `put` returns."""

    def __init__(self, folder: Path):
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    async def put(
        self, link: "redis.Redis", run_id: str, group_id: str, sha256: str, data: bytes
    ) -> str:
        key = f"{run_id}.{group_id}.{sha256[:16]}.group"
        temporary = self._folder / f".{key}.tmp"
        with boundary(StreamError, f"storing group {group_id} in {self._folder}", OSError):
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._folder / key)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return key
