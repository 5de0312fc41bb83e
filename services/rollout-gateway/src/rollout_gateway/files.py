"""Small files that survive a kill at any moment: written aside, then renamed."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from envfarm.errors import ConfigError


def lock_folder(folder: Path) -> IO[bytes]:
    """Keep the folder for this process until the file is closed; ConfigError when it is taken."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("wb")
    except OSError as error:
        raise ConfigError(f"cannot use {folder}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(
            f"{folder} is in use by another gateway", hint="stop it, or choose another folder"
        ) from error
    return lock


def write_bytes(path: Path, data: bytes) -> None:
    """OSError that names `path` when the disk does not take it; what was there before stays."""
    temporary = path.with_name(path.name + ".tmp")
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file of a failed write: the error of a full disk does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value, indent=1, sort_keys=True).encode())


def read_json(path: Path) -> Any:
    """The value, or None when there is no such file; ConfigError when it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigError(
            f"{path} is damaged: {error}", hint="restore it from a copy, or remove it"
        ) from error
