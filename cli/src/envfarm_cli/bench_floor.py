"""The floor of `envfarm bench episode`: the same tool functions on one open connection, nothing else.

No slots, leases, doors, processes or verdicts: what Postgres and the tools themselves cost.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import psycopg.sql
from envfarm.canonical import canonical_json
from envfarm_common import logging
from envfarm_common.binaries import find_postgres
from psycopg.rows import dict_row

from env_server.postgres import EmbeddedPostgres
from env_server.toolkit import Call
from env_server.world import World, load_world

Action = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Floor:
    """Seconds of each single operation."""

    calls: list[float]
    reads: list[float]
    """Reading every table in full, which is what grading needs at least."""
    episodes: list[float]


def measure(domains: Path, domain: str, actions: list[Action], rounds: int, state: Path) -> Floor:
    logging.configure("floor", "warning")
    return asyncio.run(_measure(load_world(domains / domain / "world"), actions, rounds, state))


async def _measure(world: World, actions: list[Action], rounds: int, state: Path) -> Floor:
    server = await EmbeddedPostgres.start(
        find_postgres(),
        state_dir=state,
        memory_dir=Path("/dev/shm"),
        max_connections=5,
        user="nobody",
    )
    try:
        async with await psycopg.AsyncConnection.connect(server.conninfo, autocommit=True) as conn:
            for path in (world.schema_file, world.seed_file):
                await conn.execute(path.read_bytes())
            await conn.execute("RESET ALL")
            return await _rounds(conn, world, actions, rounds)
    finally:
        await server.stop()


async def _rounds(
    conn: psycopg.AsyncConnection[Any], world: World, actions: list[Action], rounds: int
) -> Floor:
    parsed = [
        (world.tools[name], world.tools[name].parse(canonical_json(arguments)))
        for name, arguments in actions
    ]
    found = await conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    tables = [row[0] for row in await found.fetchall()]
    calls, reads, episodes = [], [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        async with conn.transaction(force_rollback=True):
            for tool, arguments in parsed:
                started = time.perf_counter()
                async with conn.transaction(), conn.cursor(row_factory=dict_row) as cursor:
                    await tool.function(Call(cursor, world.now), **arguments)
                calls.append(time.perf_counter() - started)
            started = time.perf_counter()
            for table in tables:
                query = psycopg.sql.SQL("SELECT to_jsonb(t) FROM {} t")
                await (await conn.execute(query.format(psycopg.sql.Identifier(table)))).fetchall()
            reads.append(time.perf_counter() - started)
        episodes.append(time.perf_counter() - begin)
    return Floor(calls, reads, episodes)
