"""Several processes behind one address: the kernel deals connections out among them.

The parent serves nothing. It reserves the ports, forks the workers before anything that must not be
forked is started, starts a dead one again, and ends them all when it is told to.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from envfarm.errors import ConfigError
from envfarm_common import lifecycle, logging
from envfarm_common.grpc import address_taken
from envfarm_common.worker_metrics import FOLDER, READY, WorkerInstruments
from prometheus_client import values

from grader.app import serve
from grader.settings import Settings, count_in_files

log = logging.get(__name__)

START_SECONDS = 60.0
STOP_SECONDS = 20.0
QUICK_SECONDS = 5.0
"""A worker that dies sooner than this after its start would die again."""
_PR_SET_PDEATHSIG = 1


def run_workers(settings: Settings) -> int:
    """Serve with `settings.workers` processes until SIGTERM or SIGINT; the exit status."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="envfarm-grader-")))
        http_port = stack.enter_context(_reserved(settings.host, settings.http_port))
        grpc_port = stack.enter_context(_reserved(settings.host, settings.grpc_port))
        shared = settings.model_copy(
            update={
                "http_port": http_port,
                "grpc_port": grpc_port,
                "state_dir": settings.state_dir or place / "records",
            }
        )
        crew = _Crew(shared, place)
        try:
            return crew.run()
        finally:
            crew.stop()


class _Crew:
    """The workers of one parent."""

    def __init__(self, settings: Settings, place: Path):
        self._settings = settings
        self._place = place
        self._started: dict[int, tuple[int, float]] = {}
        """Process → its number and when it was started."""
        self._stopping = False

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        for number in range(self._settings.workers):
            self._start(number)
        self._wait_until_ready()
        while not self._stopping:
            self._replace_dead()
            time.sleep(0.1)
        return 0

    def stop(self) -> None:
        """SIGTERM, wait, and SIGKILL for those that do not end."""
        lifecycle.remove_ready(self._settings.ready_file)
        for pid in self._started:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self._started:
            self._reap()
            if time.monotonic() > deadline:
                for pid in self._started:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _ready_file(self, number: int) -> Path:
        return self._place / f"{READY}{number}"

    def _start(self, number: int) -> None:
        self._ready_file(number).unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os._exit(_work(self._settings, self._ready_file(number), self._place))
        self._started[pid] = (number, time.monotonic())

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        files = [self._ready_file(number) for number in range(self._settings.workers)]
        while not self._stopping and not all(file.exists() for file in files):
            if self._reap() or time.monotonic() > deadline:
                raise ConfigError("a worker did not start; its own line above says why")
            time.sleep(0.02)
        if not self._stopping:
            facts = json.loads(files[0].read_text())
            doors = {name: facts[name] for name in ("http", "grpc")}
            log.info("workers serve", workers=len(files), **doors)
            lifecycle.write_ready(self._settings.ready_file, **doors)

    def _replace_dead(self) -> None:
        for number, lived in self._reap():
            log.error("a worker died and is started again", worker=number, lived_seconds=lived)
            if lived < QUICK_SECONDS:
                time.sleep(1.0)
            self._start(number)

    def _reap(self) -> list[tuple[int, float]]:
        """The workers that ended since the last call, and how long each had lived."""
        ended = []
        for pid in list(self._started):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            number, since = self._started.pop(pid)
            ended.append((number, time.monotonic() - since))
        return ended


def _work(settings: Settings, ready_file: Path, shared: Path) -> int:
    """A worker's whole life; its exit status."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    mine = settings.model_copy(update={"ready_file": ready_file})

    async def main() -> None:
        await serve(mine, _instruments(shared), is_worker=True)

    return lifecycle.run(main)


def _instruments(shared: Path) -> WorkerInstruments:
    counts = shared / FOLDER
    counts.mkdir(exist_ok=True)
    count_in_files(counts)
    # The worker was forked from a process that had prometheus_client choose already.
    values.ValueClass = values.MultiProcessValue()
    return WorkerInstruments("grader", shared)


@contextlib.contextmanager
def _reserved(host: str, port: int) -> Iterator[int]:
    """The port, or a free one for 0, kept for our workers: bound and never listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            holder.bind((host, port))
        except OSError as error:
            raise address_taken(f"{host}:{port}") from error
        yield holder.getsockname()[1]
