"""Evidence: every table read in full, compared with the template's rows, and hashed.

A table's hash is the SHA-256 over its canonical rows joined by newlines, in primary-key order; the
state hash is the content hash of {table: table hash}. Rows that Postgres wrote exactly as in the
template are not parsed again.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, LiteralString, TypeVar, cast

from envfarm.canonical import bytes_hash, canonical_json, canonical_row, content_hash
from envfarm.errors import EvidenceError
from psycopg import AsyncConnection, sql

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
FETCH_ROWS = 2000
SESSION = (
    "-c timezone=UTC -c datestyle=ISO,YMD -c intervalstyle=postgres -c extra_float_digits=1"
    " -c bytea_output=hex -c search_path=public"
)
"""libpq options of every connection, so that equal rows are written with equal text."""


def made_sql(text: str) -> sql.SQL:
    """SQL that our own code put together from constants."""
    return sql.SQL(cast(LiteralString, text))


@dataclass(frozen=True, slots=True)
class Table:
    """A base table of the world."""

    name: str
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    collated: frozenset[str]
    """Key columns of a text type: ordered with COLLATE "C"."""
    stored: tuple[str, ...] = ()
    """Columns that can be written: all but generated ones."""
    is_partitioned: bool = False
    leaves: tuple[int, ...] = ()
    """Oids of the relations that hold the rows."""
    physical: tuple[str, ...] = ()
    """Quoted names of the table and its partitions."""

    def ordered(self, column: str, prefix: str) -> sql.Composed:
        """A key column as it is sorted by."""
        collate = ' COLLATE "C"' if column in self.collated else ""
        return made_sql("{}.{}" + collate).format(sql.Identifier(prefix), sql.Identifier(column))

    def query(self) -> sql.Composed:
        """All rows as jsonb text, in primary-key order."""
        order = sql.SQL(", ").join(self.ordered(column, "t") for column in self.key_columns)
        return sql.SQL("SELECT to_jsonb(t)::text FROM public.{} t ORDER BY {}").format(
            sql.Identifier(self.name), order
        )


@dataclass(frozen=True)
class TableRows:
    """All rows of one table, in primary-key order."""

    table: Table
    raw: tuple[str, ...]
    canonical: tuple[str, ...]
    hash: str

    @cached_property
    def by_raw(self) -> Mapping[str, str]:
        """Canonical text by the text that Postgres wrote."""
        return dict(zip(self.raw, self.canonical, strict=True))

    @cached_property
    def by_key(self) -> Mapping[str, int]:
        """Place of a row by its primary key as canonical JSON."""
        return {key_of(self.table, row): place for place, row in enumerate(self.canonical)}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of all tables at one moment."""

    tables: Mapping[str, TableRows]
    state_hash: str


@dataclass(frozen=True, slots=True)
class Change:
    """Net change of one row; `before` is None for an insert, `after` for a delete."""

    table: str
    key_json: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Digest:
    table: Table
    rows: int
    hash: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a sealed episode shows."""

    initial_state_hash: str
    final_state_hash: str
    digests: tuple[Digest, ...]
    changes: tuple[Change, ...]
    from_journal: bool = False
    """Only touched tables were looked at; else all were read in full."""


_TABLES = """
SELECT c.relname AS name,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             ORDER BY a.attnum) AS columns,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
             ORDER BY k.place) AS key_columns,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attcollation <> 0
            ) AS collated,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               AND a.attgenerated = '' ORDER BY a.attnum) AS stored,
       c.relkind = 'p' AS is_partitioned,
       ARRAY(SELECT l.relid::oid FROM pg_partition_tree(c.oid) l WHERE l.isleaf
             UNION SELECT c.oid WHERE c.relkind = 'r') AS leaves,
       ARRAY(SELECT l.relid::regclass::text FROM pg_partition_tree(c.oid) l
             UNION SELECT c.oid::regclass::text) AS physical
FROM pg_class c
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
ORDER BY c.relname COLLATE "C"
"""


async def read_tables(conn: AsyncConnection[Any]) -> tuple[Table, ...]:
    rows = await (await conn.execute(_TABLES)).fetchall()
    return tuple(
        Table(n, tuple(c), tuple(k), frozenset(t), tuple(s), p, tuple(leaves), tuple(physical))
        for n, c, k, t, s, p, leaves, physical in rows
    )


async def read_rows(
    conn: AsyncConnection[Any], table: Table, base: TableRows | None = None
) -> TableRows:
    """All rows of `table`; those that `base` has with the same text are taken from there."""
    raw = tuple([row[0] async for row in _stream(conn, table)])
    if base and raw == base.raw:
        return TableRows(table, base.raw, base.canonical, base.hash)
    known = base.by_raw if base else {}
    canonical = tuple(known.get(text) or canonical_row(text) for text in raw)
    return TableRows(table, raw, canonical, hash_of(canonical))


def hash_of(canonical: Sequence[str]) -> str:
    """The hash of a table that holds these rows in this order."""
    return bytes_hash("\n".join(canonical).encode())


async def _stream(conn: AsyncConnection[Any], table: Table) -> AsyncIterator[Sequence[str]]:
    async with conn.cursor() as cursor:
        await cursor.execute(table.query())
        while rows := await cursor.fetchmany(FETCH_ROWS):
            for row in rows:
                yield row


async def read_snapshot(
    conn: AsyncConnection[Any], tables: Sequence[Table], base: Snapshot | None = None
) -> Snapshot:
    """One consistent reading of `tables`; the connection must not be in a transaction."""
    found: dict[str, TableRows] = {}
    await conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for table in tables:
        found[table.name] = await read_rows(conn, table, base.tables[table.name] if base else None)
    await conn.execute("COMMIT")
    return Snapshot(found, content_hash({name: rows.hash for name, rows in found.items()}))


def compare(initial: Snapshot, final: Snapshot) -> Evidence:
    """The net changes and digests; EvidenceError when hash and changes contradict each other."""
    changes: list[Change] = []
    for name, rows in final.tables.items():
        changes += changes_of(initial.tables[name], rows)
    return Evidence(
        initial.state_hash,
        final.state_hash,
        tuple(Digest(rows.table, len(rows.raw), rows.hash) for rows in final.tables.values()),
        tuple(changes),
    )


def changes_of(before: TableRows, rows: TableRows) -> list[Change]:
    """The net changes of one table, by key; EvidenceError when its hash contradicts them."""
    name = before.table.name
    found = list(_changes(before, rows))
    if bool(found) != (before.hash != rows.hash):
        raise EvidenceError(f"table {name}: {len(found)} changed rows, yet hashes disagree")
    inserts = sum(change.before is None for change in found)
    deletes = sum(change.after is None for change in found)
    if len(before.raw) + inserts - deletes != len(rows.raw):
        raise EvidenceError(f"table {name}: row counts and changed rows disagree")
    return found


def _changes(before: TableRows, after: TableRows) -> Iterator[Change]:
    if before.hash == after.hash:
        return
    table = before.table
    old = {key_of(table, row): row for row in set(before.canonical) - set(after.canonical)}
    new = {key_of(table, row): row for row in set(after.canonical) - set(before.canonical)}
    for key in sorted(old.keys() | new.keys()):
        yield Change(table.name, key, old.get(key), new.get(key))


def key_of(table: Table, canonical: str) -> str:
    """The primary key of a canonical row, as canonical JSON."""
    row = json.loads(canonical)
    return canonical_json({column: row[column] for column in table.key_columns})


def pieces(rows: Sequence[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """`rows` in order, in runs of at most 1 MiB; a single larger row goes alone."""
    run: list[T] = []
    total = 0
    for row in rows:
        size = size_of(row)
        if run and total + size > CHUNK_BYTES:
            yield run
            run, total = [], 0
        run.append(row)
        total += size
    if run:
        yield run
