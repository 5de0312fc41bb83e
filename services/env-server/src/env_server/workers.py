"""Several processes behind one command: each has its own addresses and episodes, all share a Postgres.

An episode lives in the worker that opened it: the answer to the open names that worker's doors, so
an episode id or a token is never looked for in two places. Each worker registers itself, takes its
part of the limits, and sweeps what a dead one left in the Postgres. The parent serves nothing: it
keeps the ports and the Postgres, starts a dead worker again, and ends all when it is told to.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError
from envfarm_common import lifecycle, logging
from envfarm_common.binaries import child_command
from envfarm_common.grpc import address_taken
from envfarm_common.settings import redacted
from envfarm_common.worker_metrics import FOLDER
from prometheus_client.multiprocess import mark_process_dead

from env_server import backend
from env_server.backend import POSTGRES_FILE
from env_server.cancel import cancel_all
from env_server.episode_files import lock_folder, remove_if_dead
from env_server.settings import Settings
from env_server.shared_postgres import SharedPostgres
from env_server.supervision import connections_needed
from env_server.world import load_catalog

log = logging.get(__name__)

PREFIX = "workers-"
START_SECONDS = 300.0
"""For the templates of all worlds in every worker."""
STOP_SECONDS = 30.0
"""For a worker to end after its drain."""
QUICK_SECONDS = 5.0
"""A worker that dies sooner than this after its start would die again."""
POLL_SECONDS = 0.05


async def serve_workers(settings: Settings) -> None:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT."""
    stop = lifecycle.stop_event()
    log.info("starting", **redacted(settings))
    catalog = load_catalog(settings.domains_dir)
    async with contextlib.AsyncExitStack() as down:
        folder = down.enter_context(_shared_folder(settings.state_dir))
        shares = [
            settings.of_worker(
                number,
                folder,
                http_port=down.enter_context(_reserved(settings, settings.http_port, number)),
                grpc_port=down.enter_context(_reserved(settings, settings.grpc_port, number)),
            )
            for number in range(settings.workers)
        ]
        connections = 1 + sum(connections_needed(share, catalog) for share in shares)
        postgres = SharedPostgres(
            backend.choose(
                settings,
                connections,
                gives_dsns=any(world.dsn_connections for world in catalog.worlds.values()),
            ),
            folder / POSTGRES_FILE,
            connections,
        )
        down.push_async_callback(postgres.stop)
        await postgres.start()
        crew = _Crew(shares, folder)
        down.push_async_callback(crew.stop, settings.drain_seconds)
        stopping = asyncio.create_task(stop.wait())
        keeping = asyncio.create_task(postgres.run())
        serving = asyncio.create_task(_serve(settings, crew))
        down.callback(lifecycle.remove_ready, settings.ready_file)
        await asyncio.wait({stopping, keeping, serving}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        await cancel_all([stopping, keeping, serving])
    log.info("stopped")


async def _serve(settings: Settings, crew: "_Crew") -> None:
    """Never returns; ConfigError when a worker does not start."""
    doors = await crew.start()
    first = {name: doors[0][name] for name in ("http", "grpc")}
    lifecycle.write_ready(settings.ready_file, **first, workers=doors)
    log.info("ready", workers=len(doors), **first)
    await asyncio.Event().wait()


class _Crew:
    """The workers of one parent."""

    def __init__(self, shares: Sequence[Settings], folder: Path):
        self._shares = shares
        self._folder = folder
        self._stopping = asyncio.Event()
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._tending: list[asyncio.Task[None]] = []
        self._ends = 0

    async def start(self) -> list[dict[str, str]]:
        """Start all; the doors of each, in order, once the last is ready."""
        self._tending = [
            asyncio.create_task(self._tend(number)) for number in range(len(self._shares))
        ]
        deadline = time.monotonic() + START_SECONDS
        files = [self._ready_file(number) for number in range(len(self._shares))]
        while not all(file.exists() for file in files):
            for task in self._tending:
                if task.done():
                    task.result()
            if self._ends or time.monotonic() > deadline:
                raise ConfigError("a worker did not start; its own line above says why")
            await asyncio.sleep(POLL_SECONDS)
        facts = [json.loads(file.read_text()) for file in files]
        return [{name: found[name] for name in ("http", "grpc")} for found in facts]

    async def stop(self, drain_seconds: float) -> None:
        """SIGTERM to all at once, so that all drain together; SIGKILL for those that do not end."""
        self._stopping.set()
        for process in self._running.values():
            process.terminate()
        if not self._tending:
            return
        await asyncio.wait(self._tending, timeout=drain_seconds + STOP_SECONDS)
        for number, process in self._running.items():
            log.error("a worker does not end and is killed", worker=number)
            process.kill()
        await asyncio.wait(self._tending)

    async def _tend(self, number: int) -> None:
        """Keep this worker running until all are to stop."""
        while not self._stopping.is_set():
            begin = time.monotonic()
            process = self._running[number] = await self._spawn(number)
            if self._stopping.is_set():
                process.terminate()
            status = await process.wait()
            del self._running[number]
            self._ready_file(number).unlink(missing_ok=True)
            mark_process_dead(process.pid, str(self._folder / FOLDER))
            if self._stopping.is_set():
                return
            self._ends += 1
            lived = time.monotonic() - begin
            log.error("a worker ended and is started again", worker=number, status=status)
            if lived < QUICK_SECONDS:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), 1.0)

    async def _spawn(self, number: int) -> asyncio.subprocess.Process:
        # It is told to end when we die, however that happens.
        command = [sys.executable, "-m", "env_server"]
        return await asyncio.create_subprocess_exec(
            *child_command(command, death=signal.SIGTERM),
            env=self._shares[number].worker_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            # A Ctrl-C in a terminal is for us, who pass it on in order.
            start_new_session=True,
        )

    def _ready_file(self, number: int) -> Path:
        file = self._shares[number].ready_file
        assert file
        return file


@contextlib.contextmanager
def _shared_folder(base: Path) -> Iterator[Path]:
    """A folder of our own for all workers; what dead parents left goes."""
    try:
        base.mkdir(parents=True, exist_ok=True)
        for old in base.glob(PREFIX + "*"):
            remove_if_dead(old)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        lock = lock_folder(folder)
        (folder / FOLDER).mkdir()
    except OSError as error:
        raise ConfigError(f"{base}: no folder for workers: {error.strerror}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextlib.contextmanager
def _reserved(settings: Settings, first: int, number: int) -> Iterator[int]:
    """The port of a worker, or a free one where `first` is 0; ours even while the worker is dead."""
    address: Any = (settings.host, first + number if first else 0)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as holder:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # A port that may be shared would hide that somebody else listens there.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(address)
        except OSError as error:
            raise address_taken(f"{address[0]}:{address[1]}") from error
        yield holder.getsockname()[1]
