"""Small files that survive a kill at any moment: written aside, then renamed."""

import json
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError


def write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


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
