"""How rows and answers are read from a database, so that equal states read alike everywhere.

The same session options, order and row text as in the env-server; a contract test compares them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from envfarm.canonical import canonical_row
from envfarm.errors import GraderError
from psycopg import AsyncConnection, sql

from grader.checks.sql import MAX_ROWS
from grader.verdict import CannotRun

QUERY_SECONDS = 2.0
SESSION = (
    "-c timezone=UTC -c datestyle=ISO,YMD -c intervalstyle=postgres -c extra_float_digits=1"
    " -c bytea_output=hex -c search_path=public -c row_security=off"
)
"""libpq options. With row security off a policy that would hide rows is an error instead."""

_TABLES = """
SELECT c.relname,
       pg_catalog.array_agg(a.attname::text ORDER BY a.attnum),
       pg_catalog.array_agg(pg_catalog.format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
       pg_catalog.array_agg(a.attgenerated <> '' ORDER BY a.attnum),
       pg_catalog.array_agg(NOT a.attnotnull ORDER BY a.attnum),
       ARRAY(SELECT k.attname::text
             FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS u(attnum, place)
             JOIN pg_catalog.pg_attribute k ON k.attrelid = c.oid AND k.attnum = u.attnum
             ORDER BY u.place),
       ARRAY(SELECT k.attname::text FROM pg_catalog.pg_attribute k
             WHERE k.attrelid = c.oid AND k.attnum = ANY (i.indkey) AND k.attcollation <> 0),
       pg_catalog.bool_and(y.typsend <> 0 AND (e.oid IS NULL OR e.typsend <> 0))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type e ON e.oid = y.typelem
LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = 'public'::pg_catalog.regnamespace AND c.relkind IN ('r', 'p')
  AND NOT c.relispartition
GROUP BY c.oid, c.relname, i.indkey
ORDER BY c.relname COLLATE "C"
"""

_OBJECTS = """
SELECT 'trigger ' || t.tgname || ' on ' || c.relname
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::pg_catalog.regnamespace
  AND n.nspname <> 'journal'
UNION ALL
SELECT 'rule ' || r.rulename || ' on ' || c.relname
FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
WHERE r.rulename <> '_RETURN' AND c.relnamespace = 'public'::pg_catalog.regnamespace
UNION ALL SELECT 'policy ' || polname FROM pg_catalog.pg_policy
UNION ALL SELECT 'event trigger ' || evtname FROM pg_catalog.pg_event_trigger
UNION ALL SELECT 'function ' || proname FROM pg_catalog.pg_proc
WHERE pronamespace = 'public'::pg_catalog.regnamespace
UNION ALL SELECT 'view ' || relname FROM pg_catalog.pg_class
WHERE relkind IN ('v', 'm') AND relnamespace = 'public'::pg_catalog.regnamespace
"""


@dataclass(frozen=True, slots=True)
class TableShape:
    """A base table of schema public as the catalog has it."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    generated: tuple[bool, ...]
    nullable: tuple[bool, ...]
    key_columns: tuple[str, ...]
    collated: frozenset[str]
    """Key columns of a text type: ordered with COLLATE "C"."""
    is_binary: bool
    """Whether each of its types has a binary form."""

    def order(self) -> sql.Composed:
        """The primary key as an ORDER BY list."""
        return sql.SQL(", ").join(
            sql.SQL('t.{} COLLATE pg_catalog."C"').format(sql.Identifier(column))
            if column in self.collated
            else sql.SQL("t.{}").format(sql.Identifier(column))
            for column in self.key_columns
        )

    def rows_query(self) -> sql.Composed:
        """All rows as jsonb text, in primary-key order."""
        return sql.SQL(
            "SELECT pg_catalog.to_jsonb(t)::pg_catalog.text FROM public.{} t ORDER BY {}"
        ).format(sql.Identifier(self.name), self.order())

    def copy_query(self) -> sql.Composed:
        """All rows in any order as COPY writes them: the cheapest exact reading."""
        options = sql.SQL(" (FORMAT binary)" if self.is_binary else "")
        return (
            sql.SQL("COPY (SELECT * FROM public.{}) TO STDOUT").format(sql.Identifier(self.name))
            + options
        )


async def read_shapes(conn: AsyncConnection[Any]) -> dict[str, TableShape]:
    """All base tables of schema public, by name."""
    rows = await (await conn.execute(_TABLES)).fetchall()
    return {
        row[0]: TableShape(row[0], *map(tuple, row[1:6]), frozenset(row[6]), row[7])  # pyright: ignore
        for row in rows
    }


async def read_objects(conn: AsyncConnection[Any]) -> frozenset[str]:
    """What acts on rows or hides them: triggers (those of the env-server's journal left out), rules,
    policies, functions and views, by name."""
    rows = await (await conn.execute(_OBJECTS)).fetchall()
    return frozenset(row[0] for row in rows)


async def query_rows(conn: AsyncConnection[Any], query: str) -> Sequence[str]:
    """Canonical rows of one SELECT in the open transaction, which stays usable.

    CannotRun for bad SQL, too many rows or more than two seconds, as an env-server refuses them.
    """
    inner = query.strip().rstrip(";").replace("%", "%%")
    try:
        async with asyncio.timeout(QUERY_SECONDS), conn.transaction():
            # A parameter makes it the extended protocol, which takes exactly one statement. The
            # line break keeps a comment at the end of the query from swallowing the bracket.
            cursor = await conn.execute(
                f"SELECT pg_catalog.to_jsonb(q)::text FROM (\n{inner}\n) q LIMIT %s",  # pyright: ignore[reportArgumentType]
                (MAX_ROWS + 1,),
            )
            rows = await cursor.fetchall()
    except (TimeoutError, psycopg.errors.QueryCanceled) as error:
        raise CannotRun(
            f"the query fails: the query ran longer than {QUERY_SECONDS:g} s"
        ) from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise CannotRun(
            f"the query fails: the query is refused: {error.diag.message_primary}"
        ) from error
    except psycopg.OperationalError as error:
        raise GraderError(f"the query failed: {error}") from error
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise CannotRun(f"the query fails: the query is refused: {message}") from error
    if len(rows) > MAX_ROWS:
        raise CannotRun(f"the query fails: the query gives more than {MAX_ROWS} rows")
    return [canonical_row(row[0]) for row in rows]
