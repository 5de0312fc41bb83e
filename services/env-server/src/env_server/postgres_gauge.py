"""How busy the Postgres under the episodes is: its client connections and its databases."""

import asyncio
import contextlib
from typing import Any

import psycopg
from envfarm_common import logging
from envfarm_common.metrics import Instruments
from psycopg import AsyncConnection

from env_server.connection import connect

log = logging.get(__name__)

LOOK_SECONDS = 5.0
COUNT = """
    SELECT count(*) FILTER (WHERE state = 'active') AS active,
           count(*) FILTER (WHERE state = 'idle') AS idle,
           count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS in_transaction,
           (SELECT count(*) FROM pg_database) AS databases
    FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
STATES = ("active", "idle", "in_transaction")


async def watch(conninfo: str, instruments: Instruments) -> None:
    """Look at it for ever, also at what is not ours in it.

    By a connection of its own: all others may wait, and that is when somebody wants to see it.
    """
    connection: AsyncConnection[Any] | None = None
    try:
        while True:
            try:
                if connection is None or connection.closed:
                    connection = await connect(conninfo)
                row = await (await connection.execute(COUNT)).fetchone()
            except psycopg.Error as error:
                log.warning("postgres not counted", error=str(error))
            else:
                assert row is not None
                for state, count in zip(STATES, row, strict=False):
                    instruments.set("envfarm_postgres_connections", count, state=state)
                instruments.set("envfarm_postgres_databases", row[-1])
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                await connection.close()
