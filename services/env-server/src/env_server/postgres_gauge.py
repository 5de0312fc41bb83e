"""How busy the Postgres under the episodes is: its client connections and its databases."""

import asyncio

import psycopg
from envfarm_common import logging
from envfarm_common.metrics import Instruments

from env_server.cluster import Cluster

log = logging.get(__name__)

LOOK_SECONDS = 5.0
STATES = ("active", "idle", "in_transaction")


async def watch(cluster: Cluster, instruments: Instruments) -> None:
    """Look at it for ever, also at what is not ours in it."""
    while True:
        try:
            connections, databases = await cluster.census()
        except psycopg.Error as error:
            log.warning("postgres not counted", error=str(error))
        else:
            for state in STATES:
                count = connections.get(state, 0)
                instruments.set("envfarm_postgres_connections", count, state=state)
            instruments.set("envfarm_postgres_databases", databases)
        await asyncio.sleep(LOOK_SECONDS)
