"""One Postgres under several workers: their parent keeps it, and a file tells them where it is.

A worker that loses it asks the file again (`backend.SharedBackend`), as an env-server alone asks
its back end.
"""

import asyncio
import contextlib
from pathlib import Path

import psycopg
from envfarm.errors import DatabaseError, EnvfarmError, boundary
from envfarm_common import logging
from psycopg import AsyncConnection

from env_server.backend import Backend
from env_server.cluster import LOST, open_guard

log = logging.get(__name__)

RETRY_SECONDS = 1.0


class SharedPostgres:
    """`start` once, then `run` until it is cancelled, then `stop`."""

    def __init__(self, backend: Backend, file: Path, connections: int):
        """`connections` is what all workers together need at most, and one for us."""
        self._backend = backend
        self._file = file
        self._connections = connections
        self._guard: AsyncConnection[object] | None = None

    async def start(self) -> None:
        """ConfigError or DatabaseError when there is no Postgres that can serve all workers."""
        conninfo = await self._backend.start()
        with boundary(DatabaseError, "Postgres", psycopg.Error):
            self._guard = await open_guard(conninfo, self._connections)
        temporary = self._file.with_suffix(".new")
        # It holds a superuser's password.
        temporary.touch(mode=0o600)
        temporary.write_text(conninfo)
        temporary.replace(self._file)

    async def run(self) -> None:
        """Never returns: each time the Postgres is lost, it is started anew."""
        while True:
            assert self._guard
            with contextlib.suppress(*LOST):
                # Nobody notifies us; the iteration ends when the server does.
                async for _ in self._guard.notifies():
                    pass
            log.error("postgres is lost and is started again")
            self._file.unlink(missing_ok=True)
            while not self._file.exists():
                try:
                    await self.start()
                except (EnvfarmError, OSError) as error:
                    log.error("postgres cannot be started yet", error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        """Stop what the back end started."""
        self._file.unlink(missing_ok=True)
        if self._guard:
            with contextlib.suppress(psycopg.Error):
                await self._guard.close()
        await self._backend.stop()
