"""What world.yaml says of the MCP servers that every episode of a world gets, and the tools that a
model is told they have.

A server's own words are not trusted: names, descriptions and schemas are pinned in servers.json, which
is part of the world's hash, and an episode does not open when a server offers anything else.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from env_server.toolkit import Access

PINS = "servers.json"
"""Beside world.yaml; written by `envfarm world pin`."""
FOLDER = "servers"
"""Beside world.yaml; code of servers that lies here is part of the world's hash."""
RESERVED = "__reserved__"
"""No tool whose name begins so is ever offered, whatever a file says."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

_Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]*$")]
_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ServerLimits(_Strict):
    """Of one server process of one episode; the kernel enforces them."""

    memory_mb: int = Field(1024, ge=16)
    """Private writable memory of each process (RLIMIT_DATA)."""
    cpu_seconds: int = Field(600, ge=1)
    """Of each process over the whole episode."""
    file_mb: int = Field(64, ge=1)
    """Size of any file that it writes."""
    open_files: int = Field(256, ge=16)
    processes: int = Field(64, ge=1)
    """Processes and threads; only where servers run under accounts of their own."""


class Lifecycle(_Strict):
    """Tools that the env-server alone calls; they are never offered."""

    init: str = ""
    """Called once with {"config": config} before the episode opens; a refusal fails the open."""
    effects: str = ""
    """Called once without arguments when the episode is sealed; its answer is evidence."""
    teardown: str = ""
    """Called without arguments before the server is ended; what it answers does not matter."""
    may_lack: bool = False
    """Whether a server without one of these tools is taken as it is: not told its config, with {} as
    its effects."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.init, self.effects, self.teardown} - {""})


class ServerFile(_Strict):
    """One MCP server: a command that speaks over stdin and stdout, or a URL (streamable HTTP)."""

    command: list[_Word] = []
    """Program and arguments; no shell. `python` is that of `environment`, else the env-server's."""
    url: _Url | None = None
    headers: dict[str, str] = {}
    """Of every request to `url`; {session} becomes a random text that is the episode's own."""
    environment: str = ""
    """Folder of a virtual environment: absolute, or below world/servers/."""
    variables: dict[_Variable, str] = {}
    """The command's environment variables, besides PATH, HOME, TMPDIR, TZ and ENVFARM_NOW."""
    dsn_variable: _Variable | None = None
    """Variable that carries a DSN of the episode's own database; none gives the server no database."""
    connections: int = Field(4, ge=1, le=32)
    """Most connections that all servers of an episode with a DSN have together, for each of them."""
    tools: list[str] | None = None
    """Tools that the agent may call; all but lifecycle and reserved ones unless given."""
    lifecycle: Lifecycle = Lifecycle()
    config: dict[str, JsonValue] = {}
    """What the init tool is given."""
    limits: ServerLimits = Field(default_factory=lambda: ServerLimits.model_validate({}))
    start: Literal["plain", "forked"] = "plain"
    """Forked: a program of Python is started once and forked for each episode where its first event loop
    begins; one that cannot be forked is started plainly."""
    clock: Literal["real", "frozen"] = "real"
    """Frozen: the time of day inside a program of Python is the world's."""
    start_seconds: float = Field(30.0, gt=0, le=600)
    """Longest start, init included."""
    restart: Literal["never", "between_calls"] = "never"
    """Whether a server that ended while no call ran is started anew: only for one that keeps nothing
    of its own. One that ends during a call always fails the episode, as nobody knows what it did."""
    max_restarts: int = Field(3, ge=1)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either a command or a url")
        only_command = self.model_fields_set & {
            *("environment", "variables", "dsn_variable", "connections", "limits"),
        }
        if self.url and only_command:
            raise ValueError(f"{sorted(only_command)[0]} is for servers with a command")
        if self.command and self.headers:
            raise ValueError("headers are for servers with a url")
        if (self.start == "forked" or self.clock == "frozen") and not self._is_python:
            raise ValueError("only [python, -m, MODULE] or [python, FILE.py] is forked or frozen")
        if self.start == "forked" and self.dsn_variable:
            raise ValueError("a server with a dsn_variable is not forked: it may read it too early")
        for name in self.tools or []:
            if name.startswith(RESERVED) or name in self.lifecycle.names:
                raise ValueError(f"tool {name} is the env-server's own and cannot be offered")
        return self

    @property
    def _is_python(self) -> bool:
        program, *rest = self.command or [""]
        is_module = len(rest) > 1 and rest[0] == "-m"
        is_file = bool(rest) and rest[0].endswith(".py")
        return program.rpartition("/")[2].startswith("python") and (is_module or is_file)

    def offers(self, name: str) -> bool:
        """Whether an agent may call the server's tool of this name."""
        if name.startswith(RESERVED) or name in self.lifecycle.names:
            return False
        return self.tools is None or name in self.tools


class PinnedTool(_Strict):
    """A tool as a model reads it."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]


class _Pins(_Strict):
    servers: dict[str, list[PinnedTool]]


@dataclass(frozen=True, slots=True)
class ForeignTool:
    """A tool of a mounted server; it counts as a write, as nothing proves that it only reads."""

    name: str
    description: str
    schema_json: str
    """JSON Schema (object) of the arguments, canonical."""
    server: str
    access: Access = Access.WRITE


def foreign_tool(server: str, pinned: PinnedTool) -> ForeignTool:
    """BrokenWorld for a name that model endpoints do not take, or a schema that is no object's."""
    if not _NAME.fullmatch(pinned.name):
        raise BrokenWorld(f"server {server}: {pinned.name[:80]!r} cannot be the name of a tool")
    schema = {"type": "object", "properties": {}, **pinned.input_schema}
    if schema["type"] != "object":
        raise BrokenWorld(f"server {server}: tool {pinned.name} takes no object")
    return ForeignTool(pinned.name, pinned.description, canonical_json(schema), server)


def read_pins(
    path: Path, servers: Mapping[str, ServerFile], offer: Collection[str] | None = None
) -> dict[str, ForeignTool]:
    """The tools of all servers by name, as pinned; BrokenWorld when the file does not fit them, or not
    the `offer` of the world."""
    hint = f"write it with `envfarm world pin {path.parent.parent.name}`"
    try:
        pins = _Pins.model_validate_json(path.read_bytes()).servers
    except FileNotFoundError as error:
        raise BrokenWorld(f"{path} is missing", hint=hint) from error
    except (OSError, ValidationError) as error:
        raise BrokenWorld(f"{path} holds no pinned tools", hint=hint) from error
    if set(pins) != set(servers):
        raise BrokenWorld(f"{path} is not of the servers of world.yaml", hint=hint)
    found: dict[str, ForeignTool] = {}
    for server, tools in pins.items():
        wanted = servers[server].tools
        names = [tool.name for tool in tools]
        if wanted is not None and set(names) != set(wanted):
            raise BrokenWorld(f"{path}: {server} has other tools than world.yaml offers", hint=hint)
        for tool in tools:
            if not servers[server].offers(tool.name) or tool.name in found:
                raise BrokenWorld(f"{path}: tool {tool.name} cannot be offered", hint=hint)
            found[tool.name] = foreign_tool(server, tool)
    if offer is not None and set(found) != set(offer):
        raise BrokenWorld(f"{path} has other tools than world.yaml offers", hint=hint)
    return found


def chosen(
    listed: Mapping[str, list[PinnedTool]], offer: Collection[str]
) -> dict[str, list[PinnedTool]]:
    """Of what servers list, in their order, what `offer` names; of two tools of one name the later
    server's. BrokenWorld when nobody has one of them."""
    owner = {tool.name: server for server, tools in listed.items() for tool in tools}
    if missing := sorted(set(offer) - owner.keys()):
        raise BrokenWorld(f"no server has a tool {', '.join(missing)}, which world.yaml offers")
    return {
        server: [tool for tool in tools if tool.name in offer and owner[tool.name] == server]
        for server, tools in listed.items()
    }


def pins_text(tools: Mapping[str, list[PinnedTool]]) -> str:
    """The text of servers.json: same tools, same bytes."""
    shown: dict[str, Any] = {
        "servers": {name: [tool.model_dump() for tool in found] for name, found in tools.items()}
    }
    return _Pins.model_validate(shown).model_dump_json(indent=1) + "\n"
