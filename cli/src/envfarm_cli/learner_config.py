"""A learner's configuration for a stack of ours: a recipe from a file, our addresses and folders."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from envfarm.sampling import Sampling

from envfarm_cli.failure import BadInput

Overrides = dict[str, dict[str, Any]]
"""Section → key → value; the section "" holds the keys above all sections."""


def merge(first: Overrides, second: Overrides) -> Overrides:
    """Both; the second wins."""
    return {
        section: {**first.get(section, {}), **second.get(section, {})}
        for section in [*first, *(name for name in second if name not in first)]
    }


def sampling_hash(base: Path, overrides: Overrides) -> str:
    """How the engines must sample by the configuration `base` with `overrides`; BadInput when it
    does not say so."""
    told = merge(_sections(base), overrides).get("sampling", {})
    try:
        return Sampling(
            temperature=float(told["temperature"]),
            top_k=int(told["top_k"]),
            top_p=float(told["top_p"]),
        ).hash
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{base}: [sampling] needs temperature, top_k and top_p as numbers: {error}"
        ) from error


def write_config(path: Path, base: Path, overrides: Overrides) -> Path:
    """Write `base` with `overrides`, mode 0600 because the stream's URL holds a password."""
    sections = _sections(base)
    if "dir" in sections.get("run", {}):
        # The learner runs in the state folder; the file means the folder where the user stands.
        sections["run"]["dir"] = str(Path(sections["run"]["dir"]).absolute())
    return write_sections(path, merge(sections, overrides))


def write_sections(path: Path, sections: Overrides) -> Path:
    """Write a TOML file, mode 0600."""
    lines = []
    for section, content in sorted(sections.items(), key=lambda item: item[0] != ""):
        lines += ["", f"[{section}]"] if section else []
        # JSON's strings, numbers, booleans and arrays are TOML's as well.
        lines += [f"{key} = {json.dumps(value)}" for key, value in content.items()]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as target:
        target.write("\n".join(lines).lstrip() + "\n")
    return path


def _sections(base: Path) -> Overrides:
    """The file's sections; BadInput when it cannot be read."""
    try:
        values = tomllib.loads(base.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(
            f"cannot read the learner's configuration {base}: {error}",
            hint="run envfarm in its repository, or name another file",
        ) from error
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    return {"": plain, **{key: value for key, value in values.items() if isinstance(value, dict)}}
