"""Which groups this run has dealt with, and how: the memory behind "trained once, lost never".

A record is made when a group's fate is known and becomes durable with the next checkpoint, which
holds the whole ledger; only then is its stream entry acknowledged. `groups.jsonl` in the run's
folder is a copy of the last durable ledger, for people and audits.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from learner.files import write_durably

TRAINED = "trained"
DUPLICATE = "duplicate"
BAD = "bad"


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    entry_id: str
    """Of the stream entry."""
    group_id: str
    fate: str
    """trained, duplicate, stale, abandoned_policy or bad."""
    reason: str
    """Empty for trained."""
    update: int
    """The update that used it, or was being filled when it was dropped; counted from 1."""
    store_key: str


class Ledger:
    """Records in order; those after `durable` are not in a checkpoint yet."""

    def __init__(self, records: list[Record]):
        self._records = records
        self._entries = {record.entry_id: record for record in records}
        self._ended = {record.group_id for record in records if record.fate != BAD}
        self._durable = len(records)

    def add(self, record: Record) -> None:
        self._records.append(record)
        self._entries[record.entry_id] = record
        if record.fate != BAD:
            self._ended.add(record.group_id)

    def settled(self, entry_id: str) -> Record | None:
        """The record of an entry whose fate is known already."""
        return self._entries.get(entry_id)

    def has_ended(self, group_id: str) -> bool:
        """True when the group was trained on or dropped; a bad one may be published again."""
        return group_id in self._ended

    def waiting(self) -> list[Record]:
        """Records that no checkpoint holds yet."""
        return self._records[self._durable :]

    def mark_durable(self) -> list[Record]:
        """The records that have just become durable, to be acknowledged."""
        fresh = self.waiting()
        self._durable = len(self._records)
        return fresh

    def dump(self) -> bytes:
        return b"".join(
            json.dumps(asdict(record), sort_keys=True).encode() + b"\n" for record in self._records
        )

    def copy_to(self, path: Path) -> None:
        write_durably(path, self.dump())

    @classmethod
    def parse(cls, data: bytes) -> "Ledger":
        return cls([Record(**json.loads(line)) for line in data.splitlines()])
