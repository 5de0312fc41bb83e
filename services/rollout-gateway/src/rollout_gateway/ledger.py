"""What Redis knows of a run: how many groups went out, and which the learner could not use."""

from typing import Any

import redis.asyncio as redis
from envfarm import streams
from envfarm.errors import StreamError, boundary
from redis.exceptions import RedisError


class RunLedger:
    """Read-only; raises StreamError."""

    def __init__(self, client: "redis.Redis"):
        self._client = client

    async def published(self, run_id: str) -> int:
        """Groups of the run that were ever published."""
        with boundary(StreamError, "counting published groups", RedisError, OSError):
            return int(await self._client.hlen(streams.published_ids(run_id)))

    async def dropped(self, run_id: str) -> dict[str, str]:
        """Reason by group id, or by entry id where the entry was lost."""
        with boundary(StreamError, "reading dropped groups", RedisError, OSError):
            found: Any = await self._client.hgetall(streams.dropped_ids(run_id))
        return {key.decode(): reason.decode() for key, reason in found.items()}

    async def trained(self, run_id: str, group_ids: list[str]) -> bool:
        """Whether the optimizer steps of all these groups are in durable checkpoints."""
        if not group_ids:
            return True
        with boundary(StreamError, "reading trained groups", RedisError, OSError):
            return all(await self._client.smismember(streams.trained_ids(run_id), group_ids))
