"""One Postgres as this process uses it: instance label, templates, clones, drops, sweeps.

Everything that we make in a Postgres is called ef_<instance>_... . While an instance lives, a
connection of its holds the advisory lock of that name; whoever can take the lock may drop the lot.
"""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from envfarm.errors import ConfigError, DatabaseError, EvidenceError, NoCapacity
from envfarm_common import logging
from psycopg import AsyncConnection, sql

from env_server import baseline, evidence, journal_evidence, reset, template
from env_server.cancel import cancel_all
from env_server.connection import connect, dsn_url
from env_server.evidence import Evidence
from env_server.journal_evidence import Doubt
from env_server.keepers import Keepers
from env_server.slot import Slot
from env_server.template import AGENT_GROUP, GRADER_GROUP, SHARED_ROLES, Template
from env_server.world import World

log = logging.get(__name__)

_NAME = re.compile(r"^ef_([0-9a-f]{12})_[a-z0-9_]+$")
ADMIN_CONNECTIONS = 3
SILENCE_SECONDS = 5.0
LOST = (psycopg.OperationalError, psycopg.InterfaceError)
"""What psycopg raises when the server is gone."""


class Cluster:
    """Made by `connect`; `lost` is set once its Postgres has gone."""

    def __init__(
        self, conninfo: str, instance: str, guard: AsyncConnection[Any], version: str, keepers: int
    ):
        self._conninfo = conninfo
        self.keepers = Keepers(self._open_keeper, keepers)
        self._guard = guard
        self._grader_password = secrets.token_urlsafe(24)
        self._admins: asyncio.Queue[AsyncConnection[Any]] = asyncio.Queue()
        self._names: set[str] = set()
        self.instance = instance
        self.version = version
        self.lost = asyncio.Event()
        self._watch = asyncio.create_task(self._watch_guard())

    @classmethod
    async def connect(cls, conninfo: str, connections: int, keepers: int) -> "Cluster":
        """Take a new instance label; ConfigError when this Postgres cannot serve us.

        `connections` is what all settings together need at most, `keepers` the part of them that
        looks into slots.
        """
        instance = secrets.token_hex(6)
        guard = await open_guard(conninfo, connections)
        await guard.execute(_LOCK, (instance,))
        await _shared_roles(guard)
        version = guard.pgconn.server_version
        cluster = cls(conninfo, instance, guard, f"{version // 10000}.{version % 10000}", keepers)
        for _ in range(ADMIN_CONNECTIONS):
            admin = await connect(conninfo)
            cluster._admins.put_nowait(admin)
        await cluster._create_grader()
        return cluster

    async def close(self) -> None:
        """Drop everything of ours that is left, then let go of the label."""
        await cancel_all([self._watch])
        if not self.lost.is_set():
            with contextlib.suppress(*LOST):
                await self._with_admin(lambda conn: _drop_instance(conn, self.instance))
        while not self._admins.empty():
            await self._admins.get_nowait().close()
        await self._guard.close()

    async def build_template(self, world: World, max_changed_units: int) -> Template:
        name = f"ef_{self.instance}_t_{world.world_hash[:16]}"
        self._names.add(name)
        return await self._with_admin(
            lambda conn: template.build(conn, self._conninfo, name, world, max_changed_units)
        )

    async def clone(self, source: Template) -> Slot:
        """A new slot; on any failure nothing of it stays."""
        name = f"ef_{self.instance}_s_{secrets.token_hex(6)}"
        self._names.add(name)
        try:
            password = await self._with_admin(lambda conn: _create_slot(conn, name, source))
            connection = await connect(
                self._conninfo,
                dbname=name,
                user=name,
                password=password,
                options=evidence.SESSION,
            )
            slot = Slot(name, source, connection)
            if source.world.dsn_connections:
                slot.dsn = dsn_url(self._conninfo, name, password)
            async with self.keepers.of(slot) as keeper:
                slot.role = await baseline.read_role(keeper, name)
                slot.before = await journal_evidence.summarize(keeper, source)
        except psycopg.Error as error:
            if not self.lost.is_set():
                with contextlib.suppress(psycopg.Error):
                    await self._with_admin(lambda conn: _drop(conn, name))
            self._names.discard(name)
            text = f"cannot clone {source.world.world_id}: {error}"
            if passes(error):
                raise NoCapacity(text, retry_after_seconds=1.0) from error
            raise DatabaseError(text) from error
        return slot

    async def silence(self, slot: Slot) -> None:
        """Nobody but us works in this slot any more: its role cannot log in, and connections that
        left the process are gone. EvidenceError when one of them does not go."""
        role = sql.Identifier(slot.name)
        await self._with_admin(
            lambda conn: conn.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
        )
        own = slot.connection.info.backend_pid
        deadline = time.monotonic() + SILENCE_SECONDS
        while await self._with_admin(lambda conn: _end_others(conn, slot.name, own)):
            if time.monotonic() > deadline:
                raise EvidenceError("a connection of a mounted server does not end")
            await asyncio.sleep(0.005)

    async def reset(self, slot: Slot, *, full: bool) -> None:
        """Undo what an episode did in a silent slot, and prove it.

        Doubt or psycopg.Error when the slot must be dropped instead.
        """
        await slot.connection.execute(reset.FORGET)
        assert slot.before
        sealed, slot.sealed = slot.sealed, None
        async with self.keepers.of(slot) as keeper:
            slot.before = await reset.undo(
                keeper,
                slot.template,
                slot.before,
                sealed or await journal_evidence.summarize(keeper, slot.template),
                role=slot.name,
                expected_role=slot.role,
                full=full,
            )

    async def collect(self, slot: Slot) -> Evidence:
        """The evidence of a slot whose agent is silent from now on: from the journal, or, when
        that leaves a doubt, from all tables."""
        await slot.connection.execute(reset.FLUSH)
        assert slot.before
        template = slot.template
        async with self.keepers.of(slot) as keeper:
            slot.sealed = await journal_evidence.summarize(keeper, template)
            try:
                return await journal_evidence.collect(keeper, template, slot.before, slot.sealed)
            except Doubt as doubt:
                log.warning("all tables are read", slot=slot.name, reason=str(doubt))
                final = await evidence.read_snapshot(keeper, template.tables, template.initial)
                return evidence.compare(template.initial, final)

    async def drop(self, slot: Slot) -> None:
        """Close the slot's connections and remove its database and role."""
        await self.hang_up(slot)
        await self._with_admin(lambda conn: _drop(conn, slot.name))
        self._names.discard(slot.name)

    async def hang_up(self, slot: Slot) -> None:
        """Give up the slot's backends at once; its files go when there is time."""
        with contextlib.suppress(psycopg.Error):
            await slot.connection.close()
        await self.keepers.close(slot)

    def disown(self, slot: Slot) -> None:
        """Leave a slot that could not be dropped to the sweep."""
        self._names.discard(slot.name)

    async def connect_grader(self, slot: Slot) -> AsyncConnection[Any]:
        """A connection that can only read, and only tables."""
        return await connect(
            self._conninfo,
            dbname=slot.name,
            user=f"ef_{self.instance}_grader",
            password=self._grader_password,
            options=evidence.SESSION,
        )

    async def _open_keeper(self, slot: Slot) -> AsyncConnection[Any]:
        return await connect(
            self._conninfo,
            prepares=True,
            dbname=slot.name,
            # Its plans must not wait for five executions, as few slots see as many, and a change of
            # the replication role throws all plans of a session away.
            options=evidence.SESSION
            + " -c stats_fetch_consistency=none -c plan_cache_mode=force_generic_plan"
            + " -c session_replication_role=replica",
        )

    async def sweep(self) -> int:
        """Drop what dead instances left, and what of ours nobody owns; returns the databases."""
        return await self._with_admin(self._sweep)

    async def _sweep(self, conn: AsyncConnection[Any]) -> int:
        dropped = 0
        owned = await _owned(conn)
        for instance in {match[1] for name in owned if (match := _NAME.match(name))}:
            if instance == self.instance:
                continue
            row = await (await conn.execute(_TRY_LOCK, (instance,))).fetchone()
            if row and row[0]:
                dropped += await _drop_instance(conn, instance)
                await conn.execute(_UNLOCK, (instance,))
        for name in owned:
            if name.startswith(f"ef_{self.instance}_s_") and name not in self._names:
                dropped += await _drop(conn, name)
        return dropped

    async def _create_grader(self) -> None:
        await self._with_admin(
            lambda conn: _create_role(
                conn, f"ef_{self.instance}_grader", self._grader_password, GRADER_GROUP, limit=-1
            )
        )

    async def _with_admin(self, work: Callable[[AsyncConnection[Any]], Awaitable[Any]]) -> Any:
        conn = await self._admins.get()
        try:
            if conn.closed and not self.lost.is_set():
                conn = await connect(self._conninfo)
            return await work(conn)
        finally:
            self._admins.put_nowait(conn)

    async def _watch_guard(self) -> None:
        # Nobody notifies us; the iteration ends when the server does.
        with contextlib.suppress(*LOST):
            async for _ in self._guard.notifies():
                pass
        self.lost.set()


_LOCK = "SELECT pg_advisory_lock(hashtextextended('envfarm:' || %s, 0))"
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('envfarm:' || %s, 0))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('envfarm:' || %s, 0))"


def passes(error: psycopg.Error) -> bool:
    """Whether it is worth asking again: a disk, memory or connections ran out, or the server went
    away, as Postgres does when its log has no room, and comes back."""
    state = error.sqlstate or ""
    is_away = isinstance(error, psycopg.OperationalError) and not state
    return is_away or state.startswith(("08", "53", "57P")) or "too many" in str(error)


async def open_guard(conninfo: str, connections: int) -> AsyncConnection[Any]:
    """A superuser's connection; ConfigError or DatabaseError when this Postgres cannot serve us."""
    try:
        guard = await connect(conninfo)
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"ENV_SERVER_DSN is not a DSN: {error}") from error
    except psycopg.OperationalError as error:
        words = " ".join(str(error).split())
        raise DatabaseError(f"cannot reach Postgres: {words}") from error
    await _require(guard, connections)
    return guard


async def _require(conn: AsyncConnection[Any], connections: int) -> None:
    row = await (
        await conn.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('is_superuser'),"
            " current_setting('max_connections')::int, current_setting('track_counts'),"
            " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
            "  AND pid <> pg_backend_pid())"
        )
    ).fetchone()
    assert row
    if row[3] != "on":
        raise ConfigError("Postgres runs with track_counts off", hint="set track_counts = on")
    if row[0] < 150000:
        raise ConfigError(f"Postgres has version {row[0] // 10000}; at least 15 is needed")
    if row[1] != "on":
        raise ConfigError(
            "ENV_SERVER_DSN does not name a superuser",
            hint="give the env-server a Postgres of its own, such as a sidecar",
        )
    if row[2] - row[4] < connections:
        taken = f", of which {row[4]} are taken" if row[4] else ""
        raise ConfigError(
            f"Postgres allows {row[2]} connections{taken}; these settings need {connections}",
            hint="raise max_connections, or lower max_episodes and ready_high",
        )


async def _shared_roles(conn: AsyncConnection[Any]) -> None:
    for role in SHARED_ROLES:
        # Another env-server may create them at the same moment.
        with contextlib.suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            await conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))


async def _create_role(
    conn: AsyncConnection[Any], name: str, password: str, group: str, *, limit: int
) -> None:
    verifier = conn.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
    await conn.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} CONNECTION LIMIT {} IN ROLE {}").format(
            sql.Identifier(name),
            sql.Literal(verifier.decode()),
            sql.Literal(limit),
            sql.Identifier(group),
        )
    )


async def _create_slot(conn: AsyncConnection[Any], name: str, source: Template) -> str:
    password = secrets.token_urlsafe(24)
    database = sql.Identifier(name)
    await conn.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
            database, sql.Identifier(source.database)
        )
    )
    await conn.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))
    limit = 1 + source.world.dsn_connections
    await _create_role(conn, name, password, AGENT_GROUP, limit=limit)
    await conn.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}, {}").format(
            database, database, sql.Identifier(GRADER_GROUP)
        )
    )
    return password


async def _end_others(conn: AsyncConnection[Any], role: str, own: int) -> bool:
    """Terminate the role's backends but `own`; whether there was one."""
    rows = await (
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = %s AND pid <> %s",
            (role, own),
        )
    ).fetchall()
    return bool(rows)


async def _owned(conn: AsyncConnection[Any]) -> list[str]:
    """Databases and roles with a label, each name once."""
    rows = await (
        await conn.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'ef\\_%'"
            " UNION SELECT rolname FROM pg_roles WHERE rolname LIKE 'ef\\_%'"
        )
    ).fetchall()
    return [row[0] for row in rows]


async def _drop_instance(conn: AsyncConnection[Any], instance: str) -> int:
    dropped = 0
    names = [name for name in await _owned(conn) if name.startswith(f"ef_{instance}_")]
    # The grader's role depends on every database, so it goes last.
    for name in sorted(names, key=lambda name: name.endswith("_grader")):
        dropped += await _drop(conn, name)
    return dropped


async def _drop(conn: AsyncConnection[Any], name: str) -> int:
    """Remove the database and the role of this name; returns how many databases that were."""
    row = await (
        await conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
    ).fetchone()
    identifier = sql.Identifier(name)
    await conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
    await conn.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(identifier))
    return 1 if row else 0
