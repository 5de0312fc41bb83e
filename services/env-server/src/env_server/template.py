"""A template database per world: built once, checked, granted, read, closed to connections."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from envfarm.errors import BrokenWorld
from psycopg import AsyncConnection, sql

from env_server import baseline, episode_files, evidence, journal, mounted_servers
from env_server.baseline import Baseline
from env_server.connection import connect
from env_server.evidence import Snapshot, Table, TableRows
from env_server.world import World

AGENT_GROUP = "world_agent"
GRADER_GROUP = "grader_ro"
MAX_QUERIES = 2_000
OWNER = "world_owner"
"""Owns what a world makes, so that no function of a world ever runs as superuser."""
SHARED_ROLES = (AGENT_GROUP, GRADER_GROUP, OWNER, journal.ROLE)
"""Without login; the same for all env-servers of a Postgres."""


@dataclass(frozen=True, slots=True)
class Template:
    """A built template and what every clone of it holds."""

    world: World
    database: str
    tables: tuple[Table, ...]
    initial: Snapshot
    baseline: Baseline
    reuse_obstacle: str
    """Why an undo cannot be trusted in this world; empty when nothing is known."""
    queries: dict[Any, bytes] = field(default_factory=dict)
    """Composed once and kept, as composing costs more than running; bounded by `query`."""

    @property
    def initial_state_hash(self) -> str:
        """Of the database and, where the world has them, the files."""
        return self.hash_with(None)

    def hash_with(self, apart: TableRows | None) -> str:
        """The same with one more table, such as what servers tell when an episode opens."""
        if apart is None and self.world.initial_files is None:
            return self.initial.state_hash
        hashes = {name: rows.hash for name, rows in self.initial.tables.items()}
        return episode_files.state_hash(hashes, self.world.initial_files, apart)

    def query(self, key: Any, make: Callable[[], sql.Composed]) -> bytes:
        """The text of `make()`, remembered under `key`."""
        if key not in self.queries:
            if len(self.queries) >= MAX_QUERIES:
                self.queries.clear()
            self.queries[key] = make().as_bytes()
        return self.queries[key]


_CLOCK = """
CREATE SCHEMA world;
CREATE FUNCTION world.now() RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN {now}::timestamptz;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA world TO world_owner;
GRANT USAGE, CREATE ON SCHEMA public TO world_owner;
"""

_GRANTS = """
GRANT USAGE ON SCHEMA public, world TO world_agent, grader_ro;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO world_agent;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO grader_ro;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO world_agent;
REVOKE CREATE ON SCHEMA public FROM world_owner;
"""

_REVOKES = r"""
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace
               AND (p.proname ~ ('^(lo_|pg_(try_)?advisory_|pg_sleep|pg_stat_get_|pg_ls_|'
                                 || 'pg_logical_|pg_replication_|pg_stat_reset|dblink)')
                    OR p.proname ~ '_to_xml(schema)?(_and_xmlschema)?$'
                    OR p.proname IN ('pg_notify', 'loread', 'lowrite', 'set_config', 'setseed',
                                     'pg_cancel_backend', 'pg_terminate_backend',
                                     'pg_export_snapshot', 'pg_database_size', 'ts_stat',
                                     'pg_tablespace_databases', 'pg_lock_status',
                                     'pg_blocking_pids', 'pg_safe_snapshot_blocking_pids',
                                     'pg_listening_channels', 'pg_notification_queue_usage'))
               AND p.proname <> 'pg_advisory_unlock_all'
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$
"""

_HIDE_CATALOGS = r"""
REVOKE ALL ON ALL TABLES IN SCHEMA pg_catalog, information_schema FROM PUBLIC;
REVOKE USAGE ON SCHEMA information_schema FROM PUBLIC;
DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
             AND p.proname ~ '^(pg_get_|pg_describe_|pg_identify_|(obj|col|shobj)_description)'
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$
"""

_QUIET_TABLES = """
SELECT format('ALTER TABLE %s SET (autovacuum_enabled = false)', oid::regclass) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""

_TRIGGERS = """
SELECT c.relname, t.tgname, t.tgenabled IN ('A', 'R') FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace ORDER BY 1, 2
"""

_INHERITED = """
SELECT i.inhrelid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE c.relkind = 'r' AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
"""

_OUTSIDE = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('public', 'pg_catalog', 'information_schema', 'pg_toast')
"""

_BAD_COLUMNS = """
WITH RECURSIVE held(place, typid, shown) AS (
    SELECT c.relname || '.' || a.attname, a.atttypid, format_type(a.atttypid, a.atttypmod)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
      AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT h.place, x.part, h.shown FROM held h JOIN pg_type t ON t.oid = h.typid,
    LATERAL (
        SELECT t.typbasetype AS part WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typcategory = 'A'
        UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
        UNION ALL SELECT a.atttypid FROM pg_attribute a
                  WHERE a.attrelid = t.typrelid AND t.typtype = 'c' AND a.attnum > 0
    ) x
)
SELECT DISTINCT h.place || ': type ' || h.shown FROM held h JOIN pg_type t ON t.oid = h.typid
WHERE t.typtype IN ('b', 'e') AND t.typcategory <> 'A'
  AND (t.oid = 'oid'::regtype OR t.typname LIKE 'reg%'
       OR (t.typtype = 'b' AND NOT EXISTS (
            SELECT 1 FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
            WHERE m.amname = 'hash' AND o.opcdefault
              AND (o.opcintype = t.oid OR EXISTS (
                    SELECT 1 FROM pg_cast k WHERE k.castsource = t.oid
                    AND k.casttarget = o.opcintype AND k.castmethod = 'b'
                    AND k.castcontext = 'i')))))
UNION
SELECT c.relname || '.' || a.attname || ': virtual generated column'
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND a.attgenerated = 'v'
ORDER BY 1
"""


async def build(
    admin: AsyncConnection[Any],
    conninfo: str,
    name: str,
    world: World,
    max_changed_units: int,
) -> Template:
    """Create database `name` from the world's SQL; BrokenWorld names file and line."""
    database = sql.Identifier(name)
    await admin.execute(
        sql.SQL(
            "CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc"
            " LC_COLLATE 'C' LC_CTYPE 'C' STRATEGY FILE_COPY"
        ).format(database)
    )
    await admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    # A world may make schemas and trusted extensions while it is built.
    owner = sql.Identifier(OWNER)
    await admin.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, owner))
    async with await connect(conninfo, dbname=name, options=evidence.SESSION) as conn:
        await conn.execute(sql.SQL(_CLOCK).format(now=sql.Literal(world.now.isoformat())))
        await _apply(conn, world.schema_file)
        await _apply(conn, world.seed_file)
        await conn.execute("RESET ALL")
        await _check(conn, world)
        tables = await evidence.read_tables(conn)
        for (statement,) in await (await conn.execute(_QUIET_TABLES)).fetchall():
            await conn.execute(statement)
        await conn.execute(_GRANTS)
        await conn.execute(_REVOKES)
        if world.catalogs == "hidden":
            await conn.execute(_HIDE_CATALOGS)
        triggers = await (await conn.execute(_TRIGGERS)).fetchall()
        await journal.install(conn, tables, max_changed_units)
        await conn.execute("VACUUM (FREEZE, ANALYZE)")
        initial = await evidence.read_snapshot(conn, tables)
        measured = await baseline.read(conn, tables)
    await admin.execute(sql.SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(database, owner))
    await admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(database))
    obstacle = ""
    if world.file_limits:
        obstacle = "its tools use files, which no other order of rows is tried with"
    if world.servers:
        obstacle = "it mounts servers, which may keep what they saw"
    always = [f"{table}.{trigger}" for table, trigger, is_always in triggers if is_always]
    return Template(
        world,
        name,
        tables,
        initial,
        measured,
        f"trigger {always[0]} is enabled always, so it would act on an undo"
        if always
        else obstacle,
    )


async def _apply(conn: AsyncConnection[Any], path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    try:
        async with conn.transaction():
            await conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(OWNER)))
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
    problems += [
        f"{row[0]}: a table that inherits from another"
        for row in await (await conn.execute(_INHERITED)).fetchall()
    ]
    problems += [
        f"{table}: trigger {trigger!r} sorts before the journal's {journal.GROWTH_TRIGGER!r}"
        for table, trigger, _ in await (await conn.execute(_TRIGGERS)).fetchall()
        if trigger.encode() <= journal.TRIGGER.encode()
    ]
    if any(table.name == episode_files.TABLE.name for table in tables):
        problems.append(f"{episode_files.TABLE.name}: evidence uses this name for files")
    if any(table.name == mounted_servers.EFFECTS.name for table in tables):
        problems.append(f"{mounted_servers.EFFECTS.name}: evidence uses this name for servers")
    if not tables:
        problems.append("there is no table")
    if problems:
        raise BrokenWorld(f"{world.schema_file}: " + "; ".join(problems))
