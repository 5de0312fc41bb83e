"""A formed group → its bytes in the GroupStore → one stream entry, once.

The entry and the memory of it are written by one script, so a group that is published again after a
crash finds its entry and adds none. Published means that Redis confirmed the write on disk.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import redis.asyncio as redis
from envfarm import streams
from envfarm.canonical import bytes_hash
from envfarm.errors import StreamError, boundary
from envfarm.v1 import group_pb2
from envfarm_common import logging
from redis.exceptions import RedisError, ResponseError

from rollout_gateway.store import GroupStore

log = logging.get(__name__)

CONFIRM_MILLISECONDS = 10_000

# KEYS: stream, published. ARGV: group id, then the entry's fields and values.
ADD_ONCE = """
local seen = redis.call('HGET', KEYS[2], ARGV[1])
if seen then return seen end
local entry = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2))
redis.call('HSET', KEYS[2], ARGV[1], entry)
return entry
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Groups that no learner has been given yet."""

    groups: int
    bytes: int


class Publisher:
    def __init__(self, client: "redis.Redis", store: GroupStore, *, require_aof: bool):
        self._client = client
        self._store = store
        self._require_aof = require_aof

    async def close(self) -> None:
        await self._client.aclose()

    async def publish(
        self,
        group: group_pb2.Group,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> str:
        """The group's entry id; StreamError when Redis did not confirm, then ask again.

        The entry is added inside `turn`, which waits for the groups that come before it.
        """
        data = group.SerializeToString(deterministic=True)
        digest = bytes_hash(data)
        with boundary(StreamError, f"publishing {group.group_id}", RedisError, OSError):
            # One connection throughout: a confirmation covers the writes of its own connection.
            async with self._client.client() as link:
                ids = streams.published_ids(group.run_id)
                known = await link.hget(ids, group.group_id)
                if known is None:
                    key = await self._store.put(link, group.run_id, group.group_id, digest, data)
                    await self._confirm(link)
                    async with turn():
                        known = await self._add(link, group, key, digest, len(data))
                else:
                    # Written again, so that the confirmation covers an entry made elsewhere.
                    await link.hset(ids, group.group_id, _text(known))
                await self._confirm(link)
                return _text(known)

    async def published(self, run_id: str, group_id: str) -> str | None:
        """The entry id of a group that is on the stream, or was."""
        with boundary(StreamError, "reading published ids", RedisError, OSError):
            entry = await self._client.hget(streams.published_ids(run_id), group_id)
        return None if entry is None else _text(entry)

    async def backlog(self, run_id: str, limit: int) -> Backlog:
        """Undelivered groups of a run, counted up to `limit`."""
        stream = streams.group_stream(run_id)
        with boundary(StreamError, f"reading {stream}", RedisError, OSError):
            delivered = await self._last_delivered(stream)
            start = "-" if delivered is None else f"({delivered}"
            entries: Any = await self._client.xrange(stream, min=start, max="+", count=limit)
        sizes = (int(fields.get(streams.FIELD_BYTES.encode(), 0)) for _, fields in entries)
        return Backlog(len(entries), sum(sizes))

    async def _last_delivered(self, stream: str) -> str | None:
        try:
            groups: Any = await self._client.xinfo_groups(stream)
        except ResponseError:  # there is no such stream yet
            return None
        for group in groups:
            if _text(group["name"]) == streams.CONSUMER_GROUP:
                return _text(group["last-delivered-id"])
        return None

    async def _add(
        self, link: "redis.Redis", group: group_pb2.Group, key: str, digest: str, size: int
    ) -> Any:
        rewards = ",".join(f"{rollout.verdict.reward:g}" for rollout in group.rollouts)
        fields: dict[str, str | int] = {
            streams.FIELD_VERSION: streams.PAYLOAD_VERSION,
            streams.FIELD_GROUP_ID: group.group_id,
            streams.FIELD_TASK_ID: group.task.task_id,
            streams.FIELD_STORE_KEY: key,
            streams.FIELD_SHA256: digest,
            streams.FIELD_BYTES: size,
            streams.FIELD_POLICY_NUMBER: group.policy.number,
            streams.FIELD_POLICY_HASH: group.policy.weights_hash,
            streams.FIELD_REWARDS: rewards,
        }
        pairs = [part for item in fields.items() for part in item]
        keys = [streams.group_stream(group.run_id), streams.published_ids(group.run_id)]
        return await link.eval(ADD_ONCE, 2, *keys, group.group_id, *pairs)  # pyright: ignore[reportGeneralTypeIssues]

    async def _confirm(self, link: "redis.Redis") -> None:
        try:
            answer: Any = await link.execute_command("WAITAOF", 1, 0, CONFIRM_MILLISECONDS)
        except ResponseError as error:
            if self._require_aof and not await _syncs_each_write(link):
                raise StreamError(
                    f"Redis cannot confirm writes: {error}",
                    hint="turn on appendonly (before Redis 7.2 with appendfsync always), or accept"
                    " losses with GATEWAY_REQUIRE_AOF=false",
                ) from error
            return
        if self._require_aof and int(answer[0]) < 1:
            raise StreamError(f"Redis did not confirm a write in {CONFIRM_MILLISECONDS} ms")


async def _syncs_each_write(link: "redis.Redis") -> bool:
    """Servers before Redis 7.2 have no WAITAOF; with `always` every answer comes after the fsync."""
    try:
        told: Any = await link.config_get("append*")
    except ResponseError:  # a managed server may refuse CONFIG
        return False
    return told.get("appendonly") == "yes" and told.get("appendfsync") == "always"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
