"""Golden snapshots: what the right run leaves behind. Written by ingest, read by grading."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from envfarm.canonical import canonical_json, content_hash
from envfarm.errors import ConfigError, EvidenceError
from pydantic import BaseModel, ConfigDict, ValidationError

from grader.evidence import Change, Evidence, Op, changes_by_table


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TableState(_Frozen):
    rows: int
    hash: str


class GoldenChange(_Frozen):
    table: str
    op: Op
    key: str
    before: str
    after: str


class Golden(_Frozen):
    """The state before and after the golden run, and the row changes between them."""

    version: Literal[1] = 1
    task_id: str
    task_hash: str
    checks_hash: str
    world_hash: str
    initial_state_hash: str
    final_state_hash: str
    initial_tables: dict[str, TableState]
    final_tables: dict[str, TableState]
    changes: list[GoldenChange]

    def as_changes(self) -> list[Change]:
        return [Change(**change.model_dump()) for change in self.changes]

    def digest(self) -> str:
        """SHA-256 (hex) of the snapshot's content."""
        return content_hash(self.model_dump())


def make_golden(checks_hash: str, untouched: Evidence, finished: Evidence) -> Golden:
    """A snapshot from the evidence of a run without calls and of the golden run."""
    if untouched.initial_state_hash != finished.initial_state_hash:
        raise EvidenceError("two fresh episodes of one task start from different states")
    if untouched.changes:
        raise EvidenceError("an episode without calls changed its database")
    return Golden(
        task_id=finished.task_id,
        task_hash=finished.task_hash,
        checks_hash=checks_hash,
        world_hash=finished.world_hash,
        initial_state_hash=finished.initial_state_hash,
        final_state_hash=finished.final_state_hash,
        initial_tables=_states(untouched),
        final_tables=_states(finished),
        changes=sorted(
            (
                GoldenChange(table=c.table, op=c.op, key=c.key, before=c.before, after=c.after)
                for c in finished.changes
            ),
            key=lambda change: (change.table, change.key),
        ),
    )


def contradictions(evidence: Evidence, golden: Golden) -> list[str]:
    """Where hashes and row diff disagree; any sentence here means that no verdict can be trusted."""
    if evidence.initial_state_hash != golden.initial_state_hash:
        return ["the episode started from another state than the golden run"]
    if set(evidence.tables) != set(golden.initial_tables):
        return ["the episode has other tables than the golden run"]
    found: list[str] = []
    observed = changes_by_table(evidence.changes)
    expected = changes_by_table(golden.as_changes())
    for name, table in sorted(evidence.tables.items()):
        changes = observed.get(name, set())
        before = golden.initial_tables[name]
        if (table.hash != before.hash) != bool(changes):
            found.append(
                f"{name}: its hash says {'changed' if not changes else 'unchanged'},"
                f" its diff has {len(changes)} changes"
            )
        grown = sum({"insert": 1, "delete": -1, "update": 0}[change.op] for change in changes)
        if table.rows != before.rows + grown:
            found.append(f"{name}: {table.rows} rows, but {before.rows} and the diff's {grown:+d}")
        same_rows = changes == expected.get(name, set())
        if same_rows != (table.hash == golden.final_tables[name].hash):
            found.append(
                f"{name}: its diff {'equals' if same_rows else 'differs from'} the golden diff"
                f" and its hash {'differs' if same_rows else 'does not'}"
            )
    return found


class GoldenStore:
    """A folder of snapshots, one file per task content and checks content."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._loaded: dict[Path, Golden] = {}

    def path(self, task_id: str, task_hash: str, checks_hash: str) -> Path:
        name = task_id.replace("/", ".")
        return self._folder / f"{name}.{task_hash[:16]}.{checks_hash[:16]}.json"

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden:
        """The snapshot; EvidenceError when it is missing, torn or made for other content."""
        path = self.path(task_id, task_hash, checks_hash)
        golden = self._loaded.get(path) or _read(path, task_id)
        if (golden.task_id, golden.task_hash, golden.checks_hash) != (
            task_id,
            task_hash,
            checks_hash,
        ):
            raise EvidenceError(f"the golden snapshot {path.name} was made for other content")
        self._loaded[path] = golden
        return golden

    def latest(self, task_id: str, checks_hash: str) -> Golden:
        """The newest snapshot for these checks, whatever the task's content; EvidenceError when
        there is none."""
        pattern = f"{task_id.replace('/', '.')}.*.{checks_hash[:16]}.json"
        found = sorted(self._folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        if not found:
            raise EvidenceError(f"there is no golden snapshot of {task_id}", hint="run ingest")
        return _read(found[-1], task_id)

    def write(self, golden: Golden) -> Path:
        """Write atomically and durably; ConfigError when the folder cannot take it."""
        path = self.path(golden.task_id, golden.task_hash, golden.checks_hash)
        content = {"content": golden.model_dump(), "sha256": golden.digest()}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self._folder, suffix=".tmp", delete=False) as file:
                try:
                    file.write(canonical_json(content))
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise ConfigError(f"cannot write the golden snapshot {path}: {error}") from error
        self._loaded.pop(path, None)
        return path


def _read(path: Path, task_id: str) -> Golden:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        golden = Golden.model_validate(stored["content"])
        digest = stored["sha256"]
    except FileNotFoundError as error:
        raise EvidenceError(
            f"there is no golden snapshot of {task_id} for this task and these checks",
            hint="run ingest",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise EvidenceError(f"the golden snapshot {path.name} is unreadable") from error
    if digest != golden.digest():
        raise EvidenceError(f"the golden snapshot {path.name} does not match its own hash")
    return golden


def _states(evidence: Evidence) -> dict[str, TableState]:
    tables: Mapping = evidence.tables
    return {name: TableState(rows=table.rows, hash=table.hash) for name, table in tables.items()}
