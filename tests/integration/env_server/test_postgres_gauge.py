"""What an env-server tells of its Postgres, told also when all its other connections wait."""

import asyncio
import re

import httpx
import psycopg

from tests.support.env_server import running_env_server
from tests.support.given_postgres import given_postgres

TASK = "shelf/lend-emma"
LOCK = b"LOCK TABLE pg_database IN SHARE ROW EXCLUSIVE MODE"


async def test_clones_and_drops_that_hang_are_told_as_active_connections():
    """Two clones hang for as long as the lock, and what ends meanwhile may not be dropped."""
    with (
        given_postgres() as dsn,
        running_env_server(
            ready_low=1, ready_high=1, max_episodes=4, backend="server", dsn=dsn
        ) as server,
    ):
        async with server.client() as client, httpx.AsyncClient(base_url=server.http) as web:

            async def told(metric: str) -> float:
                text = (await web.get("/metrics")).text
                found = re.search(rf"^envfarm_postgres_{metric}.* (\S+)$", text, re.M)
                return float(found[1]) if found else 0.0

            async with asyncio.timeout(90):
                first = await client.open(TASK)
                while await told("databases") < 5 or await told('connections{.*"active"') > 0:
                    await asyncio.sleep(0.1)
                async with await psycopg.AsyncConnection.connect(dsn) as connection:
                    await connection.execute(LOCK)
                    asked = [asyncio.create_task(client.open(TASK)) for _ in range(3)]
                    await client.close(first)
                    while await told('connections{.*"active"') < 2:
                        await asyncio.sleep(0.1)
                episodes = await asyncio.gather(*asked)
            assert len({episode.episode_id for episode in episodes}) == 3
