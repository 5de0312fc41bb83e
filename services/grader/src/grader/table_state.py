"""A final state that arrives as JSON tables in the request.

A table whose bytes are known to hold just the initial rows is not looked into. In the others a row
that is spelled as one of the initial rows is known by its bytes and never parsed; only what is left
goes through Postgres, which types, normalises and orders it. So ten megabytes with a handful of
changes cost a hash.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envfarm.canonical import bytes_hash, canonical_json, canonical_row, content_hash
from envfarm.errors import InvalidArgument

from grader import file_rows
from grader.ask import State
from grader.evidence import Change, Evidence, Op, Table, verified
from grader.evidence_kinds import in_database
from grader.once import unique
from grader.scratch import Scratch, ScratchDatabase
from grader.seen_tables import SeenTables
from grader.world_base import BaseTable, WorldBase

SPELLINGS = 3
"""Ways of writing a row that are remembered per row of the initial state."""


class Spellings:
    """The initial rows of one world, by each way in which they have been seen written."""

    def __init__(self, base: WorldBase):
        self._known = {
            name: {row.encode(): place for place, row in enumerate(table.rows)}
            for name, table in base.tables.items()
        }
        self._canonical = {
            name: {row: place for place, row in enumerate(table.rows)}
            for name, table in base.tables.items()
        }
        self._room = {name: SPELLINGS * len(table.rows) for name, table in base.tables.items()}

    def split(self, table: str, rows: Sequence[bytes]) -> tuple[set[int], list[str]]:
        """Places of the initial rows that are there, and the others as canonical JSON;
        InvalidArgument for what is no JSON object, or a row twice."""
        known = self._known[table]
        places: set[int] = set()
        others: list[str] = []
        for number, sent in enumerate(rows):
            place = known.get(sent)
            if place is None:
                row = _canonical(table, number, sent)
                place = self._canonical[table].get(row)
                if place is None:
                    others.append(row)
                    continue
                if self._room[table] > 0:
                    self._room[table] -= 1
                    known[sent] = place
            if place in places:
                raise InvalidArgument(f"state.{table}[{number}]: the row is there twice")
            places.add(place)
        return places, others


@dataclass(slots=True)
class TableState:
    """The final rows of every table; a context manager that holds a database while it is judged."""

    task_id: str
    task_hash: str
    load_base: Callable[[], WorldBase]
    spelled: Callable[[WorldBase], Spellings]
    state: State
    seen: SeenTables
    scratch: Scratch
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    _database: ScratchDatabase | None = None

    async def __aenter__(self) -> "TableState":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def read(self) -> Evidence:
        """InvalidArgument when the tables are not those of the world, or a row does not fit."""
        base = self.load_base()
        spellings = self.spelled(base)
        _require_tables(base, self.state)
        touched: dict[str, tuple[set[int], list[str]]] = {}
        for name, table in base.tables.items():
            sent = self.state[name]
            if self.seen.is_unchanged(base, name, sent.digest):
                continue
            places, others = spellings.split(name, sent.rows(name))
            if others or len(places) != len(table.rows):
                _require_columns(name, table, others)
                touched[name] = places, others
            else:
                self.seen.remember(base, name, sent.digest)
        final: dict[str, list[str]] = {}
        if file_rows.TABLE in touched:
            places, others = touched[file_rows.TABLE]
            kept = [base.tables[file_rows.TABLE].rows[place] for place in places]
            final[file_rows.TABLE] = file_rows.checked([*kept, *others])
        if names := in_database(touched):
            database = await self._hold(base)
            for name in names:
                places, others = touched[name]
                initial = base.tables[name].rows
                gone = [row for place, row in enumerate(initial) if place not in places]
                await database.replace_rows(name, gone, others)
                final[name] = await database.rows(name)
        return compared(self.task_id, self.task_hash, base, final)

    async def query(self, query: str) -> Sequence[str]:
        return await (await self._hold(self.load_base())).query(query)

    async def _hold(self, base: WorldBase) -> ScratchDatabase:
        if self._database is None:
            self._database = await self._stack.enter_async_context(self.scratch.holding(base))
        return self._database


def compared(
    task_id: str, task_hash: str, base: WorldBase, final: Mapping[str, list[str]]
) -> Evidence:
    """Evidence from the canonical rows, in key order, of the tables that may have changed."""
    tables: dict[str, Table] = {}
    changes: list[Change] = []
    for name, initial in base.tables.items():
        rows = final.get(name, initial.rows)
        is_same = rows is initial.rows
        tables[name] = Table(
            name=name,
            rows=len(rows),
            hash=initial.hash if is_same else bytes_hash("\n".join(rows).encode()),
            key_columns=tuple(initial.key_columns),
            columns=tuple(initial.columns),
        )
        if not is_same:
            changes += _changes(name, initial, rows)
    return verified(
        Evidence(
            episode_id="",
            task_id=task_id,
            task_hash=task_hash,
            world_id=base.world_id,
            world_hash=base.world_hash,
            initial_state_hash=base.initial_state_hash,
            final_state_hash=content_hash({name: table.hash for name, table in tables.items()}),
            tables=tables,
            changes=changes,
        )
    )


def _changes(name: str, initial: BaseTable, rows: Sequence[str]) -> list[Change]:
    before, after = set(initial.rows), set(rows)
    old = {_key(initial, row): row for row in before - after}
    new = {_key(initial, row): row for row in after - before}
    return [
        Change(
            table=name,
            op=_op(key, old, new),
            key=key,
            before=old.get(key, ""),
            after=new.get(key, ""),
        )
        for key in old.keys() | new.keys()
    ]


def _op(key: str, old: Mapping[str, str], new: Mapping[str, str]) -> Op:
    return "insert" if key not in old else "update" if key in new else "delete"


def _key(table: BaseTable, row: str) -> str:
    value = json.loads(row)
    return canonical_json({column: value[column] for column in table.key_columns})


def _canonical(table: str, number: int, sent: bytes) -> str:
    try:
        text = sent.decode()
        json.loads(text, object_pairs_hook=unique, parse_float=_bounded)
        row = canonical_row(text)
        row.encode()
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"state.{table}[{number}]: {error}") from error
    if not row.startswith("{"):
        raise InvalidArgument(f"state.{table}[{number}]: a row is a JSON object")
    return row


def _bounded(text: str) -> str:
    """Refuses a number whose digits alone would fill the memory."""
    _, _, exponent = text.lower().partition("e")
    if len(text) > 5000 or abs(int(exponent or 0)) > 5000:
        raise ValueError("a number is too long")
    return text


def _require_tables(base: WorldBase, state: State) -> None:
    missing, unknown = sorted(set(base.tables) - set(state)), sorted(set(state) - set(base.tables))
    if missing or unknown:
        faults = [f"{', '.join(missing)} missing"] if missing else []
        faults += [f"{', '.join(unknown)[:300]} unknown"] if unknown else []
        raise InvalidArgument(
            f"state: {'; '.join(faults)}",
            hint="send every table of the world, an empty one as []; GET /v1/tasks/{id}/schema",
        )


def _require_columns(name: str, table: BaseTable, rows: Sequence[str]) -> None:
    for row in rows:
        columns = set(json.loads(row))
        if columns != set(table.columns):
            missing, unknown = set(table.columns) - columns, columns - set(table.columns)
            wrong = [
                *(f"no {c!r}" for c in sorted(missing)),
                *(f"unknown {c!r}" for c in sorted(unknown)),
            ]
            raise InvalidArgument(f"state.{name}: a row has {', '.join(wrong)[:300]}: {row[:200]}")
