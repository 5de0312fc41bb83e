"""Files of a campaign: written whole and for good, or not at all."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from envfarm_cli.failure import BadInput


def write_durably(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace `path`; when this returns the new content outlives a crash of the machine.

    OSError names the file when its disk does not take it; then the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as target:
            target.write(data)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(path: Path, value: Any) -> None:
    """As `write_durably`, readable for people."""
    write_durably(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """None when there is no such file; BadInput when it is no JSON."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadInput(
            f"{path} is damaged: {error}", hint="restore it, or start over in another folder"
        ) from error


def digest(path: Path) -> str | None:
    """SHA-256 (hex) of a file; None when there is none."""
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def whole_lines(path: Path) -> list[str]:
    """Lines of a file that grows; one without its end is still being written."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [line for line in text.split("\n")[:-1] if line]
