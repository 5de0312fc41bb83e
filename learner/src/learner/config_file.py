"""TOML files of the learner: strict sections, `a.b=value` overrides, one sentence per mistake."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from envfarm.errors import ConfigError
from pydantic import BaseModel, ConfigDict, ValidationError


class Section(BaseModel):
    """Frozen; an unknown key fails; nothing has a default that decides a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Parsed = TypeVar("Parsed", bound=Section)


def load_as(kind: type[Parsed], path: Path, overrides: list[str]) -> Parsed:
    """Read the file, apply `a.b=value` in order; ConfigError names each key that is wrong."""
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    for override in overrides:
        _apply(values, override)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, item['loc'])) or 'configuration'}: "
            + item["msg"].removeprefix("Value error, ")
            for item in error.errors()
        ]
        raise ConfigError(f"{path}: " + "; ".join(lines)) from error


def _apply(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {override}: write it as section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *sections, name = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {override}: {section} is not a section")
    values[name] = value
