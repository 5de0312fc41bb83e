"""GroupStore, read side: where the bytes of groups lie."""

from pathlib import Path
from typing import Protocol

import redis
from envfarm.errors import BadGroup, StreamError, boundary


class GroupStore(Protocol):
    def fetch(self, key: str) -> bytes:
        """The bytes; BadGroup when there are none."""
        ...

    def discard(self, key: str) -> None:
        """Forget them; absent ones are fine."""
        ...


class RedisStore:
    """Bytes in a Redis key of their own."""

    def __init__(self, client: redis.Redis):
        self._client = client

    def fetch(self, key: str) -> bytes:
        with boundary(StreamError, f"reading the group bytes {key}", redis.RedisError):
            try:
                data = self._client.get(key)
            except redis.ResponseError as error:
                if not str(error).startswith("WRONGTYPE"):
                    raise
                raise BadGroup(f"the key {key} holds no bytes: {error}") from error
        if not isinstance(data, bytes):
            raise BadGroup(f"no bytes under the key {key}")
        return data

    def discard(self, key: str) -> None:
        with boundary(StreamError, f"deleting the group bytes {key}", redis.RedisError):
            self._client.delete(key)


class FolderStore:
    """Bytes in a file of a folder that gateway and learner share; the key is its name."""

    def __init__(self, folder: Path):
        self._folder = folder.resolve()

    def fetch(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            raise BadGroup(f"no bytes in {self._folder} under the key {key!r}: {error}") from error

    def discard(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        path = (self._folder / key).resolve()
        if path == self._folder or not path.is_relative_to(self._folder):
            raise BadGroup(f"the store key {key!r} leads out of {self._folder}")
        return path
