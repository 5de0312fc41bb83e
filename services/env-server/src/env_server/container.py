"""Back end `container`: a private PostgreSQL in a Docker container of its own, through testcontainers.

Its image is any that keeps the official one's conventions (POSTGRES_PASSWORD, options as arguments). A
container carries our own labels, among them the path of a lock file that we hold for life; whoever
can take that lock may remove the container. testcontainers' reaper is off: its image may be out of
reach, and it would take a second container to do what one lock does.
"""

import asyncio
import contextlib
import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Any

import psycopg
from envfarm.errors import ConfigError, DatabaseError
from envfarm_common import logging
from psycopg.conninfo import make_conninfo

from env_server.postgres import SUPERUSER, tuning

log = logging.get(__name__)

LABEL = "envfarm.env-server"
"""Marks a container as ours; its value is the machine."""
LOCK_LABEL = "envfarm.env-server.lock"
PORT = 5432
DATA = "/var/lib/postgresql"
START_SECONDS = 120.0
STOP_SECONDS = 5


class ContainerBackend:
    """One container per env-server, on an engine of this machine."""

    def __init__(
        self,
        *,
        image: str,
        state_dir: Path,
        docker_host: str,
        data_size: str,
        max_connections: int,
    ):
        self._image = image
        self._locks = state_dir / "containers"
        self._docker_host = docker_host
        self._data_size = data_size
        self._max_connections = max_connections
        self._running: Any = None
        self._lock: tuple[Path, int] | None = None

    async def start(self) -> str:
        """As Backend.start; ConfigError without an engine or image, DatabaseError when it ends."""
        await self.stop()
        self._lock = take_lock(self._locks)
        password = secrets.token_urlsafe(24)
        try:
            port = await asyncio.to_thread(self._run, password, self._lock[0])
            conninfo = make_conninfo(
                host="127.0.0.1",
                port=port,
                user=SUPERUSER,
                password=password,
                dbname="postgres",
                connect_timeout=10,
            )
            await self._wait_until_ready(conninfo)
        except BaseException:
            await self.stop()
            raise
        return conninfo

    async def stop(self) -> None:
        """Remove the container with everything in it."""
        running, self._running = self._running, None
        if running is not None:
            await asyncio.to_thread(_remove, running)
        lock, self._lock = self._lock, None
        if lock is not None:
            lock[0].unlink(missing_ok=True)
            os.close(lock[1])

    def _run(self, password: str, lock: Path) -> int:
        """Sweep, start, and answer the port on 127.0.0.1."""
        docker_errors, container_class = _testcontainers()
        environment = {"DOCKER_HOST": self._docker_host} if self._docker_host else None
        container = None
        try:
            container = container_class(
                self._image, docker_client_kw={"environment": environment} if environment else None
            )
            sweep(container.get_docker_client().client)
            # Only this machine may knock, and the data lives in memory.
            container.ports[PORT] = ("127.0.0.1", None)
            container.with_env("POSTGRES_PASSWORD", password)
            container.with_env("POSTGRES_INITDB_ARGS", "--no-sync --locale=C --encoding=UTF8")
            container.with_env("PGDATA", f"{DATA}/envfarm")
            container.with_command(_command(self._max_connections))
            container.tmpfs[DATA] = f"size={self._data_size}"
            container.with_kwargs(
                labels={LABEL: machine(), LOCK_LABEL: str(lock)},
                security_opt=["no-new-privileges:true"],
                pids_limit=4096,
                log_config={"type": "json-file", "config": {"max-size": "10m"}},
            )
            container.start()
            started = self._running = container.get_wrapped_container()
            started.reload()
            return int(started.ports[f"{PORT}/tcp"][0]["HostPort"])
        except docker_errors.ImageNotFound as error:
            raise ConfigError(
                f"no image {self._image}", hint="set ENV_SERVER_CONTAINER_IMAGE to one that is here"
            ) from error
        except docker_errors.DockerException as error:
            words = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"Docker engine: {words}", hint="start it, or set ENV_SERVER_DOCKER_HOST"
            ) from error

    async def _wait_until_ready(self, conninfo: str) -> None:
        # The official image starts Postgres twice: for its set-up it listens on no TCP port.
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(conninfo):
                    return
            if words := await asyncio.to_thread(_last_words, self._running):
                raise DatabaseError(f"the Postgres container ended: {words}")
            await asyncio.sleep(0.1)
        raise DatabaseError(f"the Postgres container did not answer within {START_SECONDS:g} s")


def take_lock(folder: Path) -> tuple[Path, int]:
    """A new lock file, held until its descriptor is closed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / f"{secrets.token_hex(6)}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


def is_dead(path: Path) -> bool:
    """Whether nobody holds this lock any more; a file that we may not open counts as held."""
    try:
        lock = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    path.unlink(missing_ok=True)
    return True


def sweep(client: Any) -> int:
    """Remove the containers of dead env-servers of this machine; returns how many."""
    removed = 0
    for container in client.containers.list(
        all=True, filters={"label": f"{LABEL}={machine()}"}, ignore_removed=True
    ):
        lock = container.labels.get(LOCK_LABEL)
        if lock and is_dead(Path(lock)):
            log.warning("removing a dead env-server's container", container=container.short_id)
            _remove(container)
            removed += 1
    return removed


def machine() -> str:
    """Names this machine and boot, as a Docker engine may serve several."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _command(max_connections: int) -> list[str]:
    options = {"max_connections": max_connections, "shared_buffers": "64MB", **tuning()}
    return [
        "postgres",
        *(word for key, value in options.items() for word in ("-c", f"{key}={value}")),
    ]


def _testcontainers() -> tuple[Any, Any]:
    """docker's errors and the container class, with the reaper off."""
    try:
        import docker.errors
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer
    except ImportError as error:
        raise ConfigError(
            "back end container needs testcontainers",
            hint="install it with pip, or choose another ENV_SERVER_BACKEND",
        ) from error
    testcontainers_config.ryuk_disabled = True
    return docker.errors, DockerContainer


def _remove(container: Any) -> None:
    errors, _ = _testcontainers()
    with contextlib.suppress(errors.NotFound):
        container.remove(force=True, v=True)


def _last_words(running: Any) -> str:
    """Of a container that has ended; empty while it runs."""
    running.reload()
    if running.status in ("created", "running"):
        return ""
    lines = running.logs(tail=3).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
