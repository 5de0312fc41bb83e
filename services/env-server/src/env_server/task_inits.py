"""What one task gives the servers of its world when an episode of it opens: world/inits/<task>.json.

The file is the agent's side's, so it may hold nothing of what a right answer looks like.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError

FOLDER = "inits"
"""Beside tasks/."""
WITHHELD = ("golden", "expected", "rubric")
"""No key of a server's init may hold one of these words: such things are the grader's."""


def read_inits(path: Path, servers: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
    """Server → what its init is given on top of the world's `config`; empty without a file.
    ConfigError names the file and what is wrong with it."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(init, dict) for init in found.values()):
        raise ConfigError(f"{path}: an object of objects, by server, is expected")
    if unknown := sorted(found.keys() - set(servers)):
        raise ConfigError(f"{path}: {unknown[0]} is no server with an init tool in world.yaml")
    for server, init in found.items():
        if told := [key for key in init if any(word in key.lower() for word in WITHHELD)]:
            raise ConfigError(
                f"{path}: {server} would be told {told[0]}",
                hint="what a right answer looks like belongs into the domain's private/ folder",
            )
    return found
