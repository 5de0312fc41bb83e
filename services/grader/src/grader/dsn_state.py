"""A final state in a database that the grader reads itself.

One READ ONLY snapshot. Every table is read in the cheapest exact form there is; a table whose bytes
have been seen before as unchanged is unchanged, and only the others are read as rows.
"""

import asyncio
import contextlib
import hashlib
import select
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from envfarm.canonical import bytes_hash, canonical_row
from envfarm.errors import EvidenceError, GraderError
from psycopg import AsyncConnection, sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from grader.dsn_targets import PinnedTarget
from grader.evidence import Evidence
from grader.reading import TableShape, query_rows, read_objects, read_shapes
from grader.scratch import Scratch
from grader.table_state import compared
from grader.verdict import CannotRun
from grader.world_base import WorldBase

REMEMBERED = 4096
WORLDS = 8


class SeenTables:
    """What is known of tables that were read before: hashes of whole ones that are unchanged, as
    COPY wrote them, and the canonical form of single rows as Postgres wrote them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._rows: OrderedDict[str, dict[str, dict[str, str]]] = OrderedDict()

    def is_unchanged(self, base: WorldBase, table: str, copied: str) -> bool:
        return (base.initial_state_hash, table, copied) in self._known

    def remember(self, base: WorldBase, table: str, copied: str) -> None:
        self._known[base.initial_state_hash, table, copied] = None
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def canonical(self, base: WorldBase, table: str, written: Sequence[str]) -> list[str]:
        """The rows as canonical JSON."""
        tables = self._rows.setdefault(base.initial_state_hash, {})
        self._rows.move_to_end(base.initial_state_hash)
        while len(self._rows) > WORLDS:
            self._rows.popitem(last=False)
        known = tables.setdefault(table, {})
        rows = [known.get(row) or canonical_row(row) for row in written]
        if len(known) < 2 * len(base.tables[table].rows):
            known.update(zip(written, rows, strict=True))
        return rows


@dataclass(slots=True)
class DsnState:
    """The final state in one database; a context manager that holds the connection."""

    task_id: str
    task_hash: str
    load_base: Callable[[], WorldBase]
    target: PinnedTarget
    seen: SeenTables
    scratch: Scratch
    timeout_seconds: float
    _conn: AsyncConnection[Any] | None = None

    async def __aenter__(self) -> "DsnState":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._conn is not None:
            with contextlib.suppress(psycopg.Error):
                await self._conn.close()

    async def read(self) -> Evidence:
        """EvidenceError when the database has another shape than the world; GraderError when it
        cannot be reached or read."""
        base = self.load_base()
        try:
            conn = await self._open()
            shapes = await read_shapes(conn)
            _require_shape(base, shapes)
            found = await read_objects(conn)
            final: dict[str, list[str]] = {}
            for name in base.tables:
                copied = await _copied(conn, shapes[name])
                if self.seen.is_unchanged(base, name, copied):
                    continue
                cursor = await conn.execute(shapes[name].rows_query())
                written = [row[0] for row in await cursor.fetchall()]
                rows = self.seen.canonical(base, name, written)
                if bytes_hash("\n".join(rows).encode()) == base.tables[name].hash:
                    self.seen.remember(base, name, copied)
                else:
                    final[name] = rows
        except psycopg.Error as error:
            raise _unreadable(error) from error
        # Most worlds have none, and then nothing needs to be held to compare with.
        known = (await self.scratch.held(base)).objects if found else frozenset[str]()
        evidence = compared(self.task_id, self.task_hash, base, final)
        return replace(evidence, leftovers=tuple(sorted(found - known)))

    async def query(self, query: str) -> Sequence[str]:
        if self._conn is None:
            raise CannotRun("the database was not read")
        return await query_rows(self._conn, query)

    async def _open(self) -> AsyncConnection[Any]:
        self._conn = conn = await AsyncConnection.connect(
            self.target.conninfo(), autocommit=True, prepare_threshold=None
        )
        await conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        milliseconds = sql.Literal(round(1000 * self.timeout_seconds))
        await conn.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(milliseconds))
        return conn


async def _copied(conn: AsyncConnection[Any], shape: TableShape) -> str:
    """Hash of the table as COPY writes it, its column types included: equal hash, equal rows."""
    digest = hashlib.sha256("\0".join([*shape.columns, *shape.types]).encode() + b"\0\0")
    command = shape.copy_query().as_bytes(conn)
    await asyncio.to_thread(_copy_into, conn.pgconn, command, digest)
    return digest.hexdigest()


def _copy_into(pgconn: PGconn, command: bytes, digest: "hashlib._Hash") -> None:
    """COPY straight from libpq: row by row through psycopg takes five times as long."""
    pgconn.send_query(command)
    ready = select.poll()
    ready.register(pgconn.socket, select.POLLIN)
    while (result := _next_result(pgconn, ready)) is not None:
        if result.status == ExecStatus.COPY_OUT:
            while (size := (found := pgconn.get_copy_data(1))[0]) >= 0:
                if size:
                    digest.update(found[1])
                else:
                    ready.poll()
                    pgconn.consume_input()
        elif result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)


def _next_result(pgconn: PGconn, ready: "select.poll") -> PGresult | None:
    while pgconn.is_busy():
        ready.poll()
        pgconn.consume_input()
    return pgconn.get_result()


def _require_shape(base: WorldBase, shapes: dict[str, TableShape]) -> None:
    """A database of another shape is not the world: no verdict can be given on it."""
    missing, unknown = (
        sorted(set(base.tables) - set(shapes)),
        sorted(set(shapes) - set(base.tables)),
    )
    if missing or unknown:
        raise EvidenceError(
            f"the database is not the world {base.world_id}: tables missing:"
            f" {', '.join(missing) or 'none'}; unknown: {', '.join(unknown) or 'none'}"
        )
    for name, table in base.tables.items():
        shape = shapes[name]
        if (list(shape.columns), list(shape.key_columns)) != (table.columns, table.key_columns):
            raise EvidenceError(
                f"the database is not the world {base.world_id}: {name} has other columns or another"
                " primary key"
            )


def _unreadable(error: psycopg.Error) -> GraderError:
    # Only the server's own sentence: connection strings and addresses stay with the operator.
    message = error.diag.message_primary or type(error).__name__
    return GraderError(f"dsn: the database cannot be read: {message}")
