"""YAML of others as plain JSON values: read as their own loader reads it, within bounds.

Their files are YAML 1.1 (dates, yes and no, anchors), so `strict_yaml` is not for them.
"""

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import yaml
from envfarm.errors import ConfigError

MAX_BYTES = 32 << 20
MAX_VALUES = 2_000_000
"""Of one document when all its aliases are written out; a bomb of aliases has more."""
MAX_DEPTH = 100


def read(path: Path) -> Any:
    """The document in `path`; ConfigError names file, line and mistake."""
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """ConfigError when the file cannot be read, is larger than 32 MiB or no UTF-8."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read: {reason}") from error


def parse(text: str, where: str, first_line: int = 1) -> Any:
    """`text` as JSON values; `where` and `first_line` say where it stands."""
    try:
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark else 0)
        raise ConfigError(f"{where}:{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}:{first_line}: not valid YAML: {error}") from error
    return _Plain(f"{where}:{first_line}").of(value, 0)


class _Plain:
    def __init__(self, where: str):
        self._where = where
        self._left = MAX_VALUES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise ConfigError(f"{self._where}: the YAML is too large or too deep")
        if isinstance(value, dict):
            return {self._key(key): self.of(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, datetime | date):
            return value.isoformat()
        if value is None or isinstance(value, str | int):
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        raise ConfigError(f"{self._where}: a {type(value).__name__} has no place in JSON")

    def _key(self, key: Any) -> str:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise ConfigError(f"{self._where}: the key {key!r} is no text")
        return str(key)
