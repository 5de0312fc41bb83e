"""The learner's end of the group stream.

Entries come in stream order: first those that an earlier process was given and did not acknowledge,
then new ones. Nothing is acknowledged before the ledger that holds its fate is in a durable
checkpoint; then the entry, its bytes and its pending mark go together.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from envfarm import streams
from envfarm.errors import BadGroup, FencedError, StreamError, boundary

from learner.decode import decode
from learner.group import TakenGroup
from learner.lease import Lease
from learner.ledger import BAD, DUPLICATE, TRAINED, Record
from learner.store import GroupStore

CONSUMER = "learner"
BLOCK_MILLISECONDS = 500
CLAIM_PAGE = 100
ACKNOWLEDGE_TRIES = 10
RECONNECT_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    entry_id: str
    fields: dict[str, str]

    @property
    def group_id(self) -> str:
        return self.fields.get(streams.FIELD_GROUP_ID, "")

    @property
    def store_key(self) -> str:
        return self.fields.get(streams.FIELD_STORE_KEY, "")


class GroupStream:
    def __init__(
        self,
        client: redis.Redis,
        reader: redis.Redis,
        run_id: str,
        store: GroupStore,
        lease: Lease,
        idle: Callable[[], None] = lambda: None,
    ):
        """`reader` must not repeat commands by itself: a repeated read loses what the first got.
        `idle` is called again and again while there is nothing to take."""
        self._client, self._reader, self._store, self._lease = client, reader, store, lease
        self._run_id, self._idle = run_id, idle
        self._name = streams.group_stream(run_id)
        self._ready: deque[Entry] = deque()
        self._handed_out: set[str] = set()

    def recover(self) -> list[str]:
        """Join the consumer group and claim every pending entry that this process does not have.

        The lease says that no other learner lives, so even fresh ones are taken over. Returns the
        ids of entries that somebody removed while they were pending: groups that are lost.
        """
        lost: list[str] = []
        with boundary(StreamError, f"claiming pending entries of {self._name}", redis.RedisError):
            try:
                self._client.xgroup_create(
                    self._name, streams.CONSUMER_GROUP, id="0", mkstream=True
                )
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
            start: Any = "0-0"
            while True:
                start, found, gone = self._client.xautoclaim(
                    self._name, streams.CONSUMER_GROUP, CONSUMER, 0, start, count=CLAIM_PAGE
                )
                for item in found:
                    self._give(_entry(item))
                lost.extend(entry_id.decode() for entry_id in gone)
                if start in (b"0-0", "0-0"):
                    return lost

    def next(self, wanted: int, stop: Callable[[], bool]) -> Entry | None:
        """The next entry, waiting for one; None when `stop` says so. Reads ahead ≤ `wanted`."""
        while not self._ready:
            if stop():
                return None
            self._lease.check()
            self._idle()
            try:
                answer: Any = self._reader.xreadgroup(
                    streams.CONSUMER_GROUP,
                    CONSUMER,
                    {self._name: ">"},
                    count=wanted,
                    block=BLOCK_MILLISECONDS,
                )
            except (redis.ConnectionError, redis.TimeoutError):
                self._reconnect(stop)
                continue
            except redis.RedisError as error:
                raise StreamError(f"reading {self._name}: {error}") from error
            for _, items in answer or ():
                for item in items:
                    self._give(_entry(item))
        return self._ready.popleft()

    def _reconnect(self, stop: Callable[[], bool]) -> None:
        """Wait for Redis as long as the lease lives; fetch what a lost answer had delivered."""
        while not stop():
            self._lease.check()
            try:
                self._reader.ping()
            except redis.RedisError:
                time.sleep(RECONNECT_SECONDS)
                continue
            self.recover()
            return

    def _give(self, entry: Entry) -> None:
        if entry.entry_id not in self._handed_out:
            self._handed_out.add(entry.entry_id)
            self._ready.append(entry)

    def fetch(self, entry: Entry) -> TakenGroup:
        """Bytes, checksum, parse; BadGroup says what is wrong with the entry or its bytes."""
        missing = [name for name in streams.ENTRY_FIELDS if name not in entry.fields]
        if missing:
            raise BadGroup(f"entry {entry.entry_id} lacks {', '.join(missing)}")
        version = entry.fields[streams.FIELD_VERSION]
        if version != str(streams.PAYLOAD_VERSION):
            raise BadGroup(
                f"entry {entry.entry_id} has payload version {version}, this learner reads "
                f"{streams.PAYLOAD_VERSION}"
            )
        payload = self._store.fetch(entry.store_key)
        return decode(payload, entry.fields[streams.FIELD_SHA256], entry.group_id)

    def bury(self, entry: Entry, reason: str) -> None:
        """Copy an entry that cannot be used to the dead-letter stream, with the reason."""
        with boundary(StreamError, "writing a dead letter", redis.RedisError):
            self._client.xadd(
                streams.dead_letters(self._run_id),
                {**entry.fields, "entry_id": entry.entry_id, "reason": reason},  # pyright: ignore[reportArgumentType]
            )

    def report_dropped(self, entry: Entry, reason: str) -> None:
        """Tell the gateway at once that it owes another group; an entry that is lost has no id."""
        with boundary(StreamError, "reporting a dropped group", redis.RedisError):
            self._client.hset(
                streams.dropped_ids(self._run_id), entry.group_id or entry.entry_id, reason
            )

    def acknowledge(self, records: Sequence[Record]) -> None:
        """Settle entries whose fate is durable: trained ids, acknowledgement, deletion at once.

        Safe to repeat. Raises FencedError when the lease is not ours any more.
        """
        if not records:
            return
        with boundary(StreamError, f"acknowledging entries of {self._name}", redis.RedisError):
            self._settle(records)
        # A duplicate shares its bytes with the original; bad bytes stay for whoever looks into them.
        for record in records:
            self._handed_out.discard(record.entry_id)
            if record.fate not in (BAD, DUPLICATE):
                self._store.discard(record.store_key)

    def _settle(self, records: Sequence[Record]) -> None:
        entry_ids = [record.entry_id for record in records]
        trained = [record.group_id for record in records if record.fate == TRAINED]
        for _ in range(ACKNOWLEDGE_TRIES):
            with self._client.pipeline(transaction=True) as pipe:
                try:
                    pipe.watch(self._lease.key)
                    if pipe.get(self._lease.key) != str(self._lease.epoch).encode():
                        raise FencedError(f"the lease {self._lease.key} is not ours any more")
                    pipe.multi()
                    if trained:
                        pipe.sadd(streams.trained_ids(self._run_id), *trained)
                    pipe.xack(self._name, streams.CONSUMER_GROUP, *entry_ids)
                    pipe.xdel(self._name, *entry_ids)
                    pipe.execute()
                    return
                except redis.WatchError:
                    continue  # the renewal thread touched the key, or the connection broke
        raise StreamError(f"{self._lease.key} changed {ACKNOWLEDGE_TRIES} times in a row")


def _entry(item: tuple[bytes, dict[bytes, bytes] | None]) -> Entry:
    entry_id, fields = item
    return Entry(
        entry_id=entry_id.decode(),
        fields={
            key.decode(errors="replace"): value.decode(errors="replace")
            for key, value in (fields or {}).items()
        },
    )
