"""A servers file: which command or address stands behind each server name."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from envfarm.errors import ConfigError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envfarm_cli.thinkingbox import plain_yaml

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
PYTHON = "python"
"""What {python} becomes: the interpreter of the server's virtual environment."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["mcp-process", "mcp-remote"] = "mcp-process"
    command: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    transport: Literal["stdio", "streamable-http", "sse"] | None = None
    endpoint: str = ""
    headers: dict[str, str] = {}
    timeout: float = Field(60.0, gt=0)
    credential: Any = None


class _ServersFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    use_internal_servers: bool = True
    servers: dict[str, _Entry] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """As world.yaml of a domain would mount it."""

    name: str
    mount: dict[str, Any]
    obstacles: tuple[str, ...]
    """Why it cannot be mounted as it stands; empty when it can."""


def read(path: Path) -> dict[str, Server]:
    """Servers by name; ConfigError names file and mistake."""
    try:
        found = _ServersFile.model_validate(plain_yaml.read(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error
    return {name: _server(name, entry) for name, entry in found.servers.items()}


def _server(name: str, entry: _Entry) -> Server:
    obstacles = []
    if entry.type == "mcp-remote":
        if not re.fullmatch(r"https?://\S+", entry.endpoint):
            obstacles.append(f"server {name} has no http address as its endpoint")
        if entry.transport == "sse":
            obstacles.append(f"server {name} speaks SSE; only streamable HTTP is mounted")
        if entry.credential:
            obstacles.append(f"server {name} wants a credential that a person must give")
        mount: dict[str, Any] = {"url": entry.endpoint, "headers": entry.headers}
        return Server(name, mount, tuple(obstacles))
    command = []
    for part in entry.command:
        text, unknown = _filled(part)
        command.append(text)
        obstacles += [f"server {name}: its command has {{{word}}}" for word in unknown]
    if not command:
        obstacles.append(f"server {name} has no command")
    if entry.cwd:
        obstacles.append(f"server {name} wants the working folder {entry.cwd}")
    return Server(name, {"command": command, "variables": entry.env}, tuple(obstacles))


def _filled(part: str) -> tuple[str, list[str]]:
    """The part with {python} put in and doubled braces undone; what else stands in braces."""
    unknown: list[str] = []

    def fill(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        if match[1] == "python":
            return PYTHON
        unknown.append(match[1])
        return match[0]

    return _PLACEHOLDER.sub(fill, part), unknown
