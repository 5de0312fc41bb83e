"""Keeps a Postgres under the episodes: connect, build templates, fill pools; again when it dies."""

import asyncio
import contextlib

import psycopg
from envfarm.errors import DatabaseError, EnvfarmError, boundary
from envfarm_common import logging
from envfarm_common.metrics import Instruments

from env_server import postgres_gauge
from env_server.backend import Backend
from env_server.cancel import cancel_all
from env_server.cluster import Cluster
from env_server.episodes import Episodes
from env_server.settings import Settings
from env_server.slots import Slots
from env_server.world import Catalog

log = logging.get(__name__)

RETRY_SECONDS = 1.0
SPARE_CONNECTIONS = 32
"""For administration, slots on their way out and grader queries."""


def connections_needed(settings: Settings, catalog: Catalog) -> int:
    """Each slot holds one connection, handed out or ready, and servers may hold more in those handed
    out; keepers and administration come on top."""
    slots = settings.max_episodes + len(catalog.worlds) * settings.ready_high
    given = max((world.dsn_connections for world in catalog.worlds.values()), default=0)
    return slots + settings.max_episodes * given + settings.keepers + SPARE_CONNECTIONS


class Supervision:
    """`start` once, then `run` until the process stops, then `stop`."""

    def __init__(
        self, settings: Settings, backend: Backend, episodes: Episodes, instruments: Instruments
    ):
        self._settings = settings
        self._backend = backend
        self._episodes = episodes
        self._instruments = instruments
        self._cluster: Cluster | None = None
        self._slots: Slots | None = None
        self._counting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Errors say what is wrong with the settings, the worlds or the Postgres."""
        with boundary(DatabaseError, "Postgres", psycopg.Error):
            await self._start()

    async def _start(self) -> None:
        catalog = self._episodes.catalog
        conninfo = await self._backend.start()
        self._cluster = cluster = await Cluster.connect(
            conninfo, connections_needed(self._settings, catalog), self._settings.keepers
        )
        templates = {}
        for world_id, world in catalog.worlds.items():
            templates[world_id] = await cluster.build_template(
                world, self._settings.max_changed_units
            )
        self._slots = Slots(
            cluster,
            templates,
            low=self._settings.ready_low,
            high=self._settings.ready_high,
            limit=self._settings.max_episodes,
            instruments=self._instruments,
        )
        if self._settings.worker == 0:
            # One worker counts for all, as they share the Postgres.
            self._counting = asyncio.create_task(postgres_gauge.watch(conninfo, self._instruments))
        self._episodes.attach(cluster, self._slots)

    async def run(self) -> None:
        """Never returns: each time the Postgres is lost, the episodes fail and it starts anew."""
        while True:
            assert self._cluster
            await self._cluster.lost.wait()
            log.error("postgres is lost; all episodes fail and it is started again")
            self._episodes.detach("its Postgres ended")
            await self._release()
            while self._slots is None:
                try:
                    await self.start()
                except (EnvfarmError, OSError) as error:
                    log.error("postgres cannot be started yet", error=str(error))
                    await self._release()
                    await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """Drop all databases and roles of ours and stop what the back end started."""
        await self._release()
        await self._backend.stop()

    async def _release(self) -> None:
        slots, self._slots = self._slots, None
        cluster, self._cluster = self._cluster, None
        counting, self._counting = self._counting, None
        if counting:
            await cancel_all([counting])
        if slots:
            await slots.close()
        if cluster:
            with contextlib.suppress(psycopg.Error):
                await cluster.close()
