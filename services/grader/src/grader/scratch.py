"""Worlds held in a Postgres of the grader's own, where a state that arrives as rows becomes a database.

Each world has a few databases that hold its initial state. A grading takes one, applies the rows that
differ inside one transaction, reads and queries, and rolls back: nothing of it stays.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from envfarm.canonical import bytes_hash, canonical_row
from envfarm.errors import EvidenceError, GraderError, InvalidArgument
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from grader.evidence import Change
from grader.evidence_kinds import in_database
from grader.reading import SESSION, TableShape, query_rows, read_objects, read_shapes
from grader.scratch_server import ScratchServer
from grader.world_base import WorldBase

SLOTS = 2
"""Databases per world, and so gradings of one world at once."""
MAX_WORLDS = 8
_BLOCK_BYTES = 4 << 20

_CLOCK = """
CREATE SCHEMA world;
CREATE FUNCTION world.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN {now}::timestamptz;
"""
_GRANTS = """
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public, world TO scratch_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO scratch_reader;
"""


@dataclass(frozen=True, slots=True)
class Held:
    """A world's shape, and how Postgres writes the rows of its initial state."""

    base: WorldBase
    shapes: dict[str, TableShape]
    canonical: dict[str, dict[str, str]]
    """Table → row as Postgres writes it → canonical row."""
    objects: frozenset[str]


class ScratchDatabase:
    """One database in an open transaction."""

    def __init__(self, held: Held, conn: AsyncConnection[Any]):
        self.held = held
        self._conn = conn

    async def replace_rows(self, table: str, gone: Sequence[str], new: Sequence[str]) -> None:
        """Delete rows by the keys in `gone`, then insert `new`; both as JSON objects.

        InvalidArgument when Postgres cannot take them: a wrong type, a key twice, a rule of the
        schema broken.
        """
        shape = self.held.shapes[table]
        name = sql.Identifier(table)
        keys = sql.SQL(", ").join(map(sql.Identifier, shape.key_columns))
        written = [c for c, made in zip(shape.columns, shape.generated, strict=True) if not made]
        columns = sql.SQL(", ").join(map(sql.Identifier, written))
        source = sql.SQL("jsonb_populate_recordset(NULL::public.{}, %s::jsonb)").format(name)
        try:
            if gone:
                await self._conn.execute(
                    sql.SQL("DELETE FROM public.{} WHERE ({}) IN (SELECT {} FROM {})").format(
                        name, keys, keys, source
                    ),
                    (_array(gone),),
                )
            if new:
                await self._conn.execute(
                    sql.SQL(
                        "INSERT INTO public.{} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}"
                    ).format(name, columns, columns, source),
                    (_array(new),),
                )
        except psycopg.OperationalError as error:
            raise GraderError(f"the scratch Postgres failed: {error}") from error
        except psycopg.Error as error:
            detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
            message = error.diag.message_primary or str(error)
            raise InvalidArgument(f"state.{table}: {message}{detail}") from error

    async def rows(self, table: str) -> list[str]:
        """All rows as canonical JSON, in primary-key order."""
        known = self.held.canonical[table]
        try:
            cursor = await self._conn.execute(self.held.shapes[table].rows_query())
            rows = await cursor.fetchall()
        except psycopg.Error as error:
            raise GraderError(f"the scratch Postgres failed: {error}") from error
        return [known.get(row[0]) or canonical_row(row[0]) for row in rows]

    async def query(self, query: str) -> Sequence[str]:
        """As `query_rows`, by a role that may only read."""
        await self._conn.execute("SET LOCAL ROLE scratch_reader")
        try:
            return await query_rows(self._conn, query)
        finally:
            with contextlib.suppress(psycopg.Error):
                await self._conn.execute("RESET ROLE")


@dataclass(slots=True)
class _World:
    held: Held
    names: list[str]
    free: asyncio.Queue[AsyncConnection[Any]] = field(default_factory=asyncio.Queue)
    users: int = 0


class Scratch:
    """All worlds that are held now; the server is started when the first one is needed."""

    def __init__(self, start: Callable[[], Awaitable[ScratchServer]] = ScratchServer.start):
        self._start = start
        self._server: ScratchServer | None = None
        self._worlds: OrderedDict[str, _World] = OrderedDict()
        self._building = asyncio.Lock()
        self._made = 0

    @contextlib.asynccontextmanager
    async def holding(
        self, base: WorldBase, changes: Sequence[Change] = ()
    ) -> AsyncIterator[ScratchDatabase]:
        """A database with the initial state and `changes`, for the time of the block.

        EvidenceError when the world cannot be held here, GraderError when Postgres fails.
        """
        world = await self._world(base)
        world.users += 1
        conn = await world.free.get()
        try:
            # Triggers and foreign keys of the world stand still: the rows are an end state, and
            # what the triggers did is in them.
            await conn.execute(
                "BEGIN; SET LOCAL session_replication_role = replica;"
                " SET LOCAL statement_timeout = '2s'"
            )
            database = ScratchDatabase(world.held, conn)
            await _apply(database, changes)
            yield database
        except psycopg.Error as error:
            raise GraderError(f"the scratch Postgres failed: {error}") from error
        finally:
            world.users -= 1
            await self._give_back(world, conn)

    async def held(self, base: WorldBase) -> Held:
        """The world's shape, once it is held; errors as `holding`."""
        return (await self._world(base)).held

    async def close(self) -> None:
        for world in self._worlds.values():
            while not world.free.empty():
                await world.free.get_nowait().close()
        self._worlds.clear()
        if self._server:
            await self._server.stop()
            self._server = None

    async def _give_back(self, world: _World, conn: AsyncConnection[Any]) -> None:
        with contextlib.suppress(psycopg.Error):
            await conn.rollback()
        if conn.closed:
            # Its Postgres may be gone: the next grading builds the world anew.
            self._worlds.pop(world.held.base.initial_state_hash, None)
        else:
            world.free.put_nowait(conn)

    async def _world(self, base: WorldBase) -> _World:
        async with self._building:
            if self._server and not self._server.is_running:
                await self.close()
            world = self._worlds.get(base.initial_state_hash)
            if world is None:
                try:
                    world = await self._build(base)
                except psycopg.OperationalError as error:
                    raise GraderError(f"the scratch Postgres failed: {error}") from error
                except psycopg.Error as error:
                    raise EvidenceError(
                        f"the world {base.world_id} cannot be held by the grader: {error}"
                    ) from error
                self._worlds[base.initial_state_hash] = world
            self._worlds.move_to_end(base.initial_state_hash)
            await self._drop_surplus()
        return world

    async def _build(self, base: WorldBase) -> _World:
        if self._server is None:
            self._server = await self._start()
            async with await self._connect("postgres") as admin:
                await admin.execute("CREATE ROLE scratch_reader NOLOGIN")
        self._made += 1
        names = [f"world_{self._made}_{slot}" for slot in range(SLOTS)]
        async with await self._connect("postgres") as admin:
            await _create(admin, names[0], "template0")
            async with await self._connect(names[0]) as conn:
                held = await _load(conn, base)
            for name in names[1:]:
                await _create(admin, name, names[0])
        world = _World(held, names)
        for name in names:
            world.free.put_nowait(await self._connect(name))
        return world

    async def _drop_surplus(self) -> None:
        idle = [key for key, world in self._worlds.items() if not world.users]
        for key in idle[: max(0, len(self._worlds) - MAX_WORLDS)]:
            world = self._worlds.pop(key)
            while not world.free.empty():
                await world.free.get_nowait().close()
            async with await self._connect("postgres") as admin:
                for name in world.names:
                    await admin.execute(
                        sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
                    )

    async def _connect(self, database: str) -> AsyncConnection[Any]:
        assert self._server
        return await AsyncConnection.connect(
            make_conninfo(self._server.conninfo, dbname=database, options=SESSION),
            autocommit=True,
            connect_timeout=10,
        )


async def _create(admin: AsyncConnection[Any], name: str, template: str) -> None:
    await admin.execute(
        sql.SQL(
            "CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' LOCALE_PROVIDER libc"
            " LC_COLLATE 'C' LC_CTYPE 'C' STRATEGY FILE_COPY"
        ).format(sql.Identifier(name), sql.Identifier(template))
    )


async def _load(conn: AsyncConnection[Any], base: WorldBase) -> Held:
    """Build the world and see that every row of it reads as it should."""
    await conn.execute(sql.SQL(_CLOCK).format(now=sql.Literal(base.world_now)))
    await conn.execute(base.schema_sql.encode())
    await conn.execute("RESET ALL")
    await conn.execute(_GRANTS)
    await conn.execute("SET session_replication_role = replica")
    shapes = await read_shapes(conn)
    held = Held(base, shapes, {name: {} for name in shapes}, await read_objects(conn))
    database = ScratchDatabase(held, conn)
    expected = in_database(base.tables)
    if set(shapes) != set(expected):
        raise EvidenceError(
            f"the schema of {base.world_id} makes other tables than its episodes have"
        )
    for name in expected:
        table = base.tables[name]
        for block in _blocks(table.rows):
            await database.replace_rows(name, (), block)
        cursor = await conn.execute(shapes[name].rows_query())
        written = [row[0] for row in await cursor.fetchall()]
        rows = [canonical_row(text) for text in written]
        if bytes_hash("\n".join(rows).encode()) != table.hash:
            raise EvidenceError(f"{base.world_id}: the rows of {name} read otherwise once loaded")
        held.canonical[name].update(zip(written, rows, strict=True))
    await conn.execute("ANALYZE")
    return held


async def _apply(database: ScratchDatabase, changes: Sequence[Change]) -> None:
    """Net changes, table by table: what was there goes, what is there comes."""
    for table in in_database(dict.fromkeys(change.table for change in changes)):
        mine = [change for change in changes if change.table == table]
        await database.replace_rows(
            table, [c.before for c in mine if c.before], [c.after for c in mine if c.after]
        )


def _blocks(rows: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    size = 0
    for row in rows:
        if size > _BLOCK_BYTES:
            blocks.append([])
            size = 0
        blocks[-1].append(row)
        size += len(row)
    return blocks


def _array(rows: Sequence[str]) -> str:
    return "[" + ",".join(rows) + "]"
