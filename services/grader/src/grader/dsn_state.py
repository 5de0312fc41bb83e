"""A final state in a database that the grader reads itself.

One READ ONLY snapshot. Every table is read in the cheapest exact form there is, and hashed while it is
read; a table whose bytes have been seen before as unchanged is unchanged, and only the others are
read as rows. Measured on 10 MB in 24 tables (CPU of Postgres and of this process): binary COPY in
physical order 11 and 16 ms; the same in key order 17 and 20; as text 25 and 17; rows through
psycopg 47 and 15; hashing inside Postgres 80 to 130. What is left beside it is the connection, whose
password exchange alone takes 5 ms.
"""

import asyncio
import contextlib
import hashlib
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from envfarm.canonical import bytes_hash
from envfarm.errors import EvidenceError, GraderError, InvalidArgument
from psycopg import AsyncConnection, sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from grader.dsn_targets import PinnedTarget
from grader.evidence import Evidence
from grader.evidence_kinds import in_database
from grader.reading import TableShape, query_rows, read_objects, read_shapes
from grader.scratch import Scratch
from grader.seen_tables import SeenTables
from grader.table_state import compared
from grader.verdict import CannotRun
from grader.world_base import WorldBase


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
        cannot be reached or read; InvalidArgument for a world whose state is more than a database."""
        base = self.load_base()
        if surplus := set(base.tables) - set(in_database(base.tables)):
            raise InvalidArgument(
                f"dsn: a database does not hold {', '.join(sorted(surplus))}, which belongs to this"
                " world's state",
                hint="grade by episode, or send the state as tables",
            )
        try:
            async with asyncio.timeout(self.timeout_seconds):
                found, final = await self._read(base)
        except psycopg.Error as error:
            raise _unreadable(error) from error
        except TimeoutError as error:
            raise GraderError(
                f"dsn: the database was not read within {self.timeout_seconds:g} s"
            ) from error
        # Most worlds have none, and then nothing needs to be held to compare with.
        known = (await self.scratch.held(base)).objects if found else frozenset[str]()
        evidence = compared(self.task_id, self.task_hash, base, final)
        return replace(evidence, leftovers=tuple(sorted(found - known)))

    async def _read(self, base: WorldBase) -> tuple[frozenset[str], dict[str, list[str]]]:
        """What acts on rows beside the tables, and the canonical rows of those that may differ."""
        conn = await self._open()
        shapes = await read_shapes(conn)
        _require_shape(base, shapes)
        found = await read_objects(conn)
        mine = {name: shapes[name] for name in base.tables}
        digests = await _in_thread(conn, mine, time.monotonic() + self.timeout_seconds)
        final: dict[str, list[str]] = {}
        for name, digest in digests.items():
            if self.seen.is_unchanged(base, name, digest):
                continue
            cursor = await conn.execute(shapes[name].rows_query())
            written = [row[0] for row in await cursor.fetchall()]
            rows = self.seen.canonical(base, name, written)
            if bytes_hash("\n".join(rows).encode()) == base.tables[name].hash:
                self.seen.remember(base, name, digest)
            else:
                final[name] = rows
        return found, final

    async def query(self, query: str) -> Sequence[str]:
        if self._conn is None:
            raise CannotRun("the database was not read")
        return await query_rows(self._conn, query)

    async def _open(self) -> AsyncConnection[Any]:
        self._conn = conn = await AsyncConnection.connect(
            self.target.conninfo(), autocommit=True, prepare_threshold=None
        )
        await conn.execute(
            sql.SQL(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {};"
                # Else a scan may start anywhere or be split, and read equal tables in another order.
                " SET LOCAL synchronize_seqscans = off; SET LOCAL max_parallel_workers_per_gather = 0"
            ).format(sql.Literal(round(1000 * self.timeout_seconds)))
        )
        return conn


async def _in_thread(
    conn: AsyncConnection[Any], shapes: Mapping[str, TableShape], deadline: float
) -> dict[str, str]:
    reading = asyncio.ensure_future(asyncio.to_thread(_copied, conn, shapes, deadline))
    try:
        return await asyncio.shield(reading)
    finally:
        # Whoever is cancelled here must not close a connection that the thread still reads from.
        await asyncio.wait([reading])


def _copied(
    conn: AsyncConnection[Any], shapes: Mapping[str, TableShape], deadline: float
) -> dict[str, str]:
    """Hash of each table as COPY writes it, its column types included: equal hash, equal rows.

    Straight from libpq, in a thread: row by row through psycopg takes five times as long.
    """
    found: dict[str, str] = {}
    for name, shape in shapes.items():
        digest = hashlib.sha256("\0".join([*shape.columns, *shape.types]).encode() + b"\0\0")
        _copy_into(conn.pgconn, shape.copy_query().as_bytes(conn), digest, deadline)
        found[name] = digest.hexdigest()
    return found


def _copy_into(pgconn: PGconn, command: bytes, digest: "hashlib._Hash", deadline: float) -> None:
    pgconn.send_query(command)
    ready = select.poll()
    ready.register(pgconn.socket, select.POLLIN)
    while (result := _next_result(pgconn, ready, deadline)) is not None:
        if result.status == ExecStatus.COPY_OUT:
            while (size := (found := pgconn.get_copy_data(1))[0]) >= 0:
                if size:
                    digest.update(found[1])
                else:
                    _wait(pgconn, ready, deadline)
        elif result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)


def _next_result(pgconn: PGconn, ready: "select.poll", deadline: float) -> PGresult | None:
    while pgconn.is_busy():
        _wait(pgconn, ready, deadline)
    return pgconn.get_result()


def _wait(pgconn: PGconn, ready: "select.poll", deadline: float) -> None:
    # Nobody can interrupt this thread, so that a server that falls silent must not hold it.
    left = deadline - time.monotonic()
    if left <= 0 or not ready.poll(1000 * left):
        raise psycopg.OperationalError("Postgres was too slow")
    pgconn.consume_input()


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
