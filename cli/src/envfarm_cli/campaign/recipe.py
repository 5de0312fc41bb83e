"""A recipe: everything that decides what a campaign finds, as one frozen, hashed value.

Precedence: defaults < TOML file < command line. An unknown key fails. The resolved recipe stands in
`recipe.json` of the campaign's folder, beside its hash.
"""

import tomllib
from pathlib import Path
from typing import Any, Self

from envfarm.canonical import content_hash
from pydantic import BaseModel, ConfigDict, ValidationError

from envfarm_cli.failure import BadInput


class Part(BaseModel):
    """One section. Frozen; refuses unknown keys, NaN and infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Recipe(Part):
    """A whole recipe."""

    @classmethod
    def resolve(cls, where: str, values: dict[str, Any]) -> Self:
        """BadInput that starts with `where` and names every key that is wrong."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            lines = [
                f"{'.'.join(map(str, item['loc'])) or 'recipe'}: "
                + item["msg"].removeprefix("Value error, ")
                for item in error.errors()
            ]
            raise BadInput(f"{where}: {'; '.join(lines)}", hint="correct these keys") from error

    def plain(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of the canonical JSON."""
        return content_hash(self.plain())


def read_toml(path: Path) -> dict[str, Any]:
    """BadInput when the file cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read the recipe {path}: {reason}") from error


def set_keys(values: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """`values` with `section.key=value` applied in order; a value is TOML, else text."""
    result = {key: dict(v) if isinstance(v, dict) else v for key, v in values.items()}
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise BadInput(f"--set {text}: write it as section.key=value")
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        *sections, name = key.split(".")
        place = result
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                raise BadInput(f"--set {text}: {section} is not a section")
            place = inner
        place[name] = parsed
    return result


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """`section.key was A and is B`, for people."""
    found = []
    for key in sorted(before.keys() | now.keys()):
        a, b = before.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} was {a!r} and is {b!r}")
    return found
