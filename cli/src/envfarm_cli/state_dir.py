"""The state folder: what a running stack writes down, and its secrets.

state.json      who runs and where; replaced atomically at every change
secrets.json    tokens, mode 0600; made once
redis.json      URL of the running Valkey, password included, mode 0600
guest.json      the learner that a campaign runs beside the stack
lock            held by the supervisor for life, so that two never share a folder
logs/ ready/    one log and one ready file per process
valkey/ golden/ records/ models/ engine/     data that outlives a stack
"""

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from envfarm_cli.failure import BadInput
from envfarm_cli.process_table import Identity, boot_id, end_group, group_members, is_alive

VERSION = 2
SECRETS = ("env_infra", "env_grader", "grader_client", "gateway_infra")
STARTING, READY, DEGRADED, STOPPING, FAILED = "starting", "ready", "degraded", "stopping", "failed"


@dataclass(slots=True)
class ProcessRecord:
    """One child as state.json knows it."""

    name: str
    pid: int
    start: int
    log: str
    http: str = ""
    grpc: str = ""
    exit_status: int | None = None
    """None while it runs."""

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)


@dataclass(slots=True)
class StackState:
    """The content of state.json."""

    phase: str
    supervisor: Identity
    boot: str
    started_at: float
    """Unix seconds."""
    engine: str
    model: str = ""
    """Folder of the model that the stack was started with."""
    records: str = ""
    """The gateway's state folder."""
    doing: str = ""
    """What is being waited for; a line for people."""
    message: str = ""
    """Why the phase is failed or degraded."""
    hint: str = ""
    exit_code: int = 0
    """What a command that reports the failure ends with."""
    processes: list[ProcessRecord] = field(default_factory=list)
    guests: list[ProcessRecord] = field(default_factory=list)
    """Processes of campaigns; never written to state.json, and never ours to stop."""

    @property
    def is_live(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        return self.boot == boot_id() and is_alive(self.supervisor)

    def find(self, name: str) -> ProcessRecord | None:
        return next((p for p in self.processes if p.name == name), None)

    def left_over(self) -> list[ProcessRecord]:
        """Processes of a dead supervisor that still run."""
        if self.boot != boot_id():
            return []
        return [p for p in self.processes if group_members(p.identity)]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for anything but what `write` wrote."""
        value = dict(value)
        value.pop("version")
        value["supervisor"] = _identity(**value["supervisor"])
        value["processes"] = [ProcessRecord(**p) for p in value["processes"]]
        for process in value["processes"]:
            _identity(process.pid, process.start)
        return cls(**value)


class StateDir:
    """One state folder; made when it is first written to."""

    def __init__(self, path: Path):
        self.path = path.absolute()
        self.state_file = self.path / "state.json"
        self.redis_file = self.path / "redis.json"
        self.guest_file = self.path / "guest.json"

    def make(self) -> None:
        """BadInput when the folder cannot be made or is not a folder."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in ("logs", "ready"):
                (self.path / name).mkdir(exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._in_the_way() from error

    def _in_the_way(self) -> BadInput:
        return BadInput(
            f"{self.path} cannot be the state folder: a file is in the way",
            hint="choose another folder with --state-dir",
        )

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def ready(self, name: str) -> Path:
        return self.path / "ready" / f"{name}.json"

    def read(self) -> StackState | None:
        """None when no stack ever ran here, or the last one was swept."""
        try:
            value = json.loads(self.state_file.read_text())
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            raise self._in_the_way() from error
        except ValueError as error:
            raise _damaged(self.state_file, error) from error
        if isinstance(value, dict) and value.get("version", VERSION) != VERSION:
            raise BadInput(
                f"{self.state_file} was written by another version of envfarm",
                hint="stop that stack with the version that started it",
            )
        try:
            state = StackState.from_json(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(self.state_file, error) from error
        guest = self._guest()
        if guest is not None and state.find(guest.name) is None:
            state.guests.append(guest)
        return state

    def add_guest(self, record: ProcessRecord) -> None:
        """Let those who watch the stack see a process that is not of it."""
        write_atomically(self.guest_file, asdict(record))

    def _guest(self) -> ProcessRecord | None:
        try:
            record = ProcessRecord(**json.loads(self.guest_file.read_text()))
        except (OSError, TypeError, ValueError):
            return None
        return record if is_alive(record.identity) else None

    def write(self, state: StackState) -> None:
        facts = asdict(state)
        del facts["guests"]
        write_atomically(self.state_file, {"version": VERSION, **facts})

    def forget(self) -> None:
        self.state_file.unlink(missing_ok=True)

    def sweep(self) -> list[str]:
        """End what a dead supervisor left behind and forget it; names of what was still running."""
        state = self.read()
        if state is None or state.is_live:
            return []
        left = state.left_over()
        for record in reversed(left):
            end_group(record.identity, grace_seconds=15)
        self.forget()
        return [record.name for record in left]

    def secrets(self) -> dict[str, str]:
        """The tokens of this folder's stacks; made at first use."""
        path = self.path / "secrets.json"
        if not path.exists():
            made = {name: secrets.token_urlsafe(32) for name in SECRETS}
            write_atomically(path, made, mode=0o600)
        try:
            found = json.loads(path.read_text())
            return {name: _string(found[name]) for name in SECRETS}
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{path} is damaged: {_why(error)}",
                hint="stop the stack of this folder, then remove the file; new secrets are made",
            ) from error

    def lock(self) -> int:
        """Take the folder for this process; BadInput when another one has it."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise BadInput(
                f"another envfarm uses {self.path}",
                hint="see `envfarm status`; stop it with `envfarm down`, or use --state-dir",
            ) from error
        return descriptor

    def unlock(self, descriptor: int) -> None:
        """Give back what `lock` gave."""
        os.close(descriptor)

    def redis_url(self) -> str:
        """URL of the running Valkey, password included."""
        try:
            return _string(json.loads(self.redis_file.read_text())["url"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise _damaged(self.redis_file, error) from error


def write_atomically(path: Path, value: Any, mode: int = 0o644) -> None:
    """Write JSON so that no reader sees half of it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w") as target:
            json.dump(value, target, indent=1)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # A full disk is only seen while writing, and that error names no file.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _identity(pid: int, start: int) -> Identity:
    """ValueError for numbers that no process of a stack can have: they are going to be signalled."""
    if type(pid) is not int or type(start) is not int or pid <= 1 or start < 0:
        raise ValueError(f"pid {pid!r}, start {start!r} is no process")
    return Identity(pid, start)


def _string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a secret is not text")
    return value


def _why(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _damaged(path: Path, error: Exception) -> BadInput:
    return BadInput(
        f"{path} is damaged: {_why(error)}",
        hint="see that no stack runs in this folder, then remove the file",
    )
