"""The initial state of a world in full: what a final state is compared with when no env-server did it.

Written by ingest beside the golden snapshots, one file per initial state.
"""

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from envfarm.canonical import bytes_hash, canonical_json, content_hash
from envfarm.errors import ConfigError, EvidenceError
from pydantic import BaseModel, ConfigDict, ValidationError

from grader.evidence import Evidence


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BaseTable(_Frozen):
    """All rows of one table as canonical JSON, in primary-key order."""

    columns: list[str]
    key_columns: list[str]
    rows: list[str]
    hash: str


class WorldBase(_Frozen):
    """A world as every episode of it starts."""

    version: Literal[1] = 1
    world_id: str
    world_hash: str
    world_now: str
    schema_sql: str
    initial_state_hash: str
    tables: dict[str, BaseTable]


def make_base(
    evidence: Evidence, rows: Mapping[str, Sequence[str]], schema_sql: str, world_now: str
) -> WorldBase:
    """From the evidence of an episode without changes, and its whole tables; EvidenceError when the
    rows are not those that the hashes speak of."""
    if evidence.changes:
        raise EvidenceError("an episode without calls changed its database")
    return _trusted(
        WorldBase(
            world_id=evidence.world_id,
            world_hash=evidence.world_hash,
            world_now=world_now,
            schema_sql=schema_sql,
            initial_state_hash=evidence.initial_state_hash,
            tables={
                table.name: BaseTable(
                    columns=list(table.columns),
                    key_columns=list(table.key_columns),
                    rows=list(rows.get(table.name, ())),
                    hash=table.hash,
                )
                for table in evidence.tables.values()
            },
        )
    )


class BaseStore:
    """A folder of initial states."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._loaded: dict[str, WorldBase] = {}

    def path(self, initial_state_hash: str) -> Path:
        return self._folder / f"world.{initial_state_hash[:32]}.json.zz"

    def has(self, initial_state_hash: str) -> bool:
        return self.path(initial_state_hash).exists()

    def load(self, initial_state_hash: str) -> WorldBase:
        """The initial state; EvidenceError when it is missing, torn or another one."""
        base = self._loaded.get(initial_state_hash) or _read(self.path(initial_state_hash))
        if base.initial_state_hash != initial_state_hash:
            raise EvidenceError(f"{self.path(initial_state_hash).name} holds another state")
        self._loaded[initial_state_hash] = base
        return base

    def write(self, base: WorldBase) -> None:
        """Write atomically and durably; ConfigError when the folder cannot take it."""
        path = self.path(base.initial_state_hash)
        packed = zlib.compress(canonical_json(base.model_dump()).encode(), 6)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=self._folder, suffix=".tmp", delete=False) as file:
                try:
                    file.write(packed)
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise ConfigError(f"cannot write the world's initial state {path}: {error}") from error


def _read(path: Path) -> WorldBase:
    try:
        unpacked = json.loads(zlib.decompress(path.read_bytes()))
        return _trusted(WorldBase.model_validate(unpacked))
    except FileNotFoundError as error:
        raise EvidenceError(
            "the world's initial state is not known here", hint="run ingest"
        ) from error
    except (OSError, ValueError, zlib.error, ValidationError) as error:
        raise EvidenceError(f"the initial state {path.name} is unreadable") from error


def _trusted(base: WorldBase) -> WorldBase:
    """The base, if its rows are those that its hashes speak of; EvidenceError otherwise."""
    for name, table in base.tables.items():
        if bytes_hash("\n".join(table.rows).encode()) != table.hash:
            raise EvidenceError(f"{name}: the rows of the initial state do not match its hash")
    stated = content_hash({name: table.hash for name, table in base.tables.items()})
    if stated != base.initial_state_hash:
        raise EvidenceError("the tables of the initial state do not match its hash")
    return base
