"""A template database per world: built once, checked, granted, read, closed to connections."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from envfarm.errors import BrokenWorld
from psycopg import AsyncConnection, sql

from env_server import evidence
from env_server.connection import connect
from env_server.evidence import Snapshot, Table
from env_server.world import World

AGENT_GROUP = "world_agent"
GRADER_GROUP = "grader_ro"


@dataclass(frozen=True, slots=True)
class Template:
    """A built template and what every clone of it holds."""

    world: World
    database: str
    tables: tuple[Table, ...]
    initial: Snapshot


_CLOCK = """
CREATE SCHEMA world;
CREATE FUNCTION world.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN {now}::timestamptz;
"""

_GRANTS = """
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public, world TO world_agent, grader_ro;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO world_agent;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO grader_ro;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO world_agent;
"""

_REVOKES = r"""
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace
               AND (p.proname ~ '^(lo_|pg_(try_)?advisory_|pg_sleep)'
                    OR p.proname IN ('pg_notify', 'loread', 'lowrite', 'set_config',
                                     'pg_cancel_backend', 'pg_terminate_backend',
                                     'pg_logical_emit_message', 'pg_export_snapshot'))
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$
"""

_OUTSIDE = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('public', 'pg_catalog', 'information_schema', 'pg_toast')
"""

_BAD_COLUMNS = """
SELECT c.relname || '.' || a.attname || ': '
       || CASE WHEN a.attgenerated = 'v' THEN 'virtual generated column'
               ELSE 'type ' || format_type(a.atttypid, a.atttypmod) END
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
  AND a.attnum > 0 AND NOT a.attisdropped
  AND (a.attgenerated = 'v'
       OR a.atttypid IN ('json'::regtype, 'xml'::regtype, 'point'::regtype, 'line'::regtype,
                         'lseg'::regtype, 'box'::regtype, 'path'::regtype, 'polygon'::regtype,
                         'circle'::regtype, 'oid'::regtype))
"""


async def build(admin: AsyncConnection[Any], conninfo: str, name: str, world: World) -> Template:
    """Create database `name` from the world's SQL; BrokenWorld names file and line."""
    database = sql.Identifier(name)
    await admin.execute(
        sql.SQL(
            "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc"
            " LC_COLLATE 'C' LC_CTYPE 'C' STRATEGY FILE_COPY"
        ).format(database)
    )
    await admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    async with await connect(conninfo, dbname=name, options=evidence.SESSION) as conn:
        await conn.execute(sql.SQL(_CLOCK).format(now=sql.Literal(world.now.isoformat())))
        await _apply(conn, world.schema_file)
        await _apply(conn, world.seed_file)
        await conn.execute("RESET ALL")
        await _check(conn, world)
        await conn.execute(_GRANTS)
        await conn.execute(_REVOKES)
        await conn.execute("VACUUM (FREEZE, ANALYZE)")
        tables = await evidence.read_tables(conn)
        initial = await evidence.read_snapshot(conn, tables)
    await admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(database))
    return Template(world, name, tables, initial)


async def _apply(conn: AsyncConnection[Any], path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    try:
        async with conn.transaction():
            await conn.execute(text.encode())
    except psycopg.Error as error:
        if conn.broken:
            raise
        place = error.diag.statement_position
        line = f":{text.count(chr(10), 0, int(place) - 1) + 1}" if place else ""
        detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
        message = error.diag.message_primary or str(error)
        raise BrokenWorld(f"{path}{line}: {message}{detail}") from error


async def _check(conn: AsyncConnection[Any], world: World) -> None:
    tables = await evidence.read_tables(conn)
    problems = [f"{table.name}: no primary key" for table in tables if not table.key_columns]
    problems += [row[0] for row in await (await conn.execute(_BAD_COLUMNS)).fetchall()]
    outside = await (await conn.execute(_OUTSIDE)).fetchall()
    problems += [f"{row[0]}: tables and views belong in schema public" for row in outside]
    if not tables:
        problems.append("there is no table")
    if problems:
        raise BrokenWorld(f"{world.schema_file}: " + "; ".join(problems))
