"""Worlds and public tasks: read from <domain>/world/, validated, hashed. Nothing else is opened."""

import importlib.util
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from envfarm.canonical import bytes_hash, content_hash
from envfarm.errors import BrokenWorld, ConfigError, UnknownTask
from envfarm_common import strict_yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from env_server.episode_files import read_seed, rows_of
from env_server.evidence import TableRows
from env_server.file_view import FileLimits
from env_server.server_file import FOLDER, PINS, ForeignTool, ServerFile, read_pins
from env_server.task_inits import FOLDER as INITS
from env_server.task_inits import read_inits
from env_server.toolkit import Tool

HASHED_FILES = ("world.yaml", "schema.sql", "seed.sql", "policy.md", "tools.py")
_IMPORT_ERRORS = (
    ImportError,
    SyntaxError,
    NameError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    OSError,
    RuntimeError,
    BrokenWorld,
)
"""What code can raise while it is loaded."""

_Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
_TaskId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*$")]
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class WorldFile(_Strict):
    """world.yaml: what a world is, besides its schema, rows, policy and tools."""

    world: _Slug
    """Name of the domain's folder."""
    now: AwareDatetime
    """The frozen clock, with its zone: what call.now and world.now() answer."""
    description: _Text
    """One sentence for people."""
    catalogs: Literal["hidden", "readable"] = "hidden"
    """Whether an agent may read Postgres's catalogs."""
    examples: dict[str, list[dict[str, JsonValue]]] = {}
    """Arguments of READ tools; the shuffle test calls the tools with them."""
    files: FileLimits | None = None
    """Gives every episode a private folder, which starts with what lies in world/files/."""
    servers: dict[_Slug, ServerFile] = {}
    """MCP servers of others that every episode gets, in the order in which they start."""
    offer: list[str] | None = None
    """Tools of servers that the agent may call, whichever server has them: of two of one name the
    later server's. All that the servers offer unless given."""


class Limits(_Strict):
    """Limits of the policy; reaching one ends the attempt, which is then graded as it stands."""

    max_turns: int = Field(gt=0)
    """Answers of the model."""
    max_tool_calls: int = Field(gt=0)
    max_turn_tokens: int = Field(gt=0)
    """Sampled in one turn."""
    max_total_tokens: int = Field(gt=0)
    """Of the whole conversation, prompt included."""
    max_tool_seconds: float = Field(gt=0)
    """Inside tools, summed."""


class Tags(_Strict):
    """What a task is counted under."""

    workflow: _Text
    """What the person wants."""
    failure_mode: _Text
    """What an agent easily gets wrong here."""
    split: Literal["train", "eval"]
    """Whether the task trains or is held out."""


class TaskFile(_Strict):
    """The half of a task that the agent's side may know."""

    id: _TaskId
    """<domain>/<file name without .yaml>."""
    opening: _Text
    """The person's first message, in their own words."""
    limits: Limits
    tags: Tags


@dataclass(frozen=True, slots=True)
class World:
    world_id: str
    world_hash: str
    now: datetime
    description: str
    policy: str
    folder: Path
    tools: Mapping[str, Tool]
    catalogs: Literal["hidden", "readable"] = "hidden"
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    file_limits: FileLimits | None = None
    """None where episodes own no files."""
    seed_files: Mapping[str, bytes] = field(default_factory=dict)
    initial_files: TableRows | None = None
    """The seed files as evidence shows them; None where episodes own no files."""
    servers: Mapping[str, ServerFile] = field(default_factory=dict)
    foreign: Mapping[str, ForeignTool] = field(default_factory=dict)
    """Tools of the servers by name, as pinned."""
    offer: tuple[str, ...] | None = None
    """As in world.yaml."""

    @property
    def offered(self) -> Mapping[str, Tool | ForeignTool]:
        """Every tool that an agent may call."""
        return {**self.tools, **self.foreign}

    @property
    def tells_effects(self) -> bool:
        """Whether a server's own account of its state is part of the evidence."""
        return any(server.lifecycle.effects for server in self.servers.values())

    @property
    def dsn_connections(self) -> int:
        """Most connections that servers open to the database of one episode."""
        return sum(item.connections for item in self.servers.values() if item.dsn_variable)

    @property
    def schema_file(self) -> Path:
        return self.folder / "schema.sql"

    @property
    def seed_file(self) -> Path:
        return self.folder / "seed.sql"


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    task_id: str
    task_hash: str
    world: World
    opening: str
    limits: Limits
    tags: Mapping[str, str]
    inits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What this task gives the world's servers on top of their `config`."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything that episodes can be opened on."""

    worlds: Mapping[str, World]
    tasks: Mapping[str, Task]

    def task(self, task_id: str, task_hash: str = "") -> Task:
        """UnknownTask for another id, or another hash than the one that is asked for."""
        found = self.tasks.get(task_id)
        if found is None:
            raise UnknownTask(
                f"there is no task {task_id!r}", hint="list them with `envfarm tasks list`"
            )
        if task_hash and task_hash != found.task_hash:
            raise UnknownTask(
                f"task {task_id} has hash {found.task_hash[:12]}, not {task_hash[:12]}",
                hint="use the same domain files on both sides",
            )
        return found


def load_catalog(domains_dir: Path) -> Catalog:
    """All worlds under `domains_dir`; ConfigError or BrokenWorld with the file at fault."""
    folders = sorted(path.parent for path in domains_dir.glob("*/world/world.yaml"))
    if not folders:
        raise ConfigError(
            f"{domains_dir}: no <domain>/world/world.yaml below it",
            hint="point ENV_SERVER_DOMAINS_DIR at a folder of domains",
        )
    worlds: dict[str, World] = {}
    tasks: dict[str, Task] = {}
    for folder in folders:
        world = load_world(folder)
        worlds[world.world_id] = world
        for path in sorted((folder / "tasks").glob("*.yaml")):
            task = load_task(path, world)
            tasks[task.task_id] = task
    return Catalog(worlds, tasks)


def load_world(folder: Path, *, is_pinned: bool = True) -> World:
    """`is_pinned` off leaves out the tools of servers, as for the command that pins them."""
    facts = strict_yaml.load(folder / "world.yaml", WorldFile)
    if facts.world != folder.parent.name:
        raise ConfigError(
            f"{folder / 'world.yaml'}:1: world is {facts.world!r} but the folder is"
            f" {folder.parent.name!r}"
        )
    content = {name: _read(folder / name) for name in HASHED_FILES}
    seed = read_seed(folder / "files", facts.files) if facts.files else {}
    content |= {f"files/{path}": data for path, data in seed.items()}
    foreign: dict[str, ForeignTool] = {}
    if facts.servers and is_pinned:
        foreign = read_pins(folder / PINS, facts.servers, facts.offer)
        content |= {PINS: _read(folder / PINS), **_code(folder / FOLDER)}
    world_hash = content_hash({name: bytes_hash(data) for name, data in content.items()})
    tools = _load_tools(folder / "tools.py", world_hash, may_lack=bool(facts.servers))
    if twice := sorted(tools.keys() & foreign.keys()):
        raise BrokenWorld(f"{folder / PINS}: tools.py has a tool {twice[0]}, too")
    return World(
        world_id=facts.world,
        world_hash=world_hash,
        now=facts.now,
        description=facts.description,
        policy=content["policy.md"].decode(),
        folder=folder,
        tools=tools,
        catalogs=facts.catalogs,
        examples=facts.examples,
        file_limits=facts.files,
        seed_files=seed,
        initial_files=rows_of(seed) if facts.files else None,
        servers=facts.servers,
        foreign=foreign,
        offer=None if facts.offer is None else tuple(facts.offer),
    )


def load_task(path: Path, world: World) -> Task:
    facts = strict_yaml.load(path, TaskFile)
    if facts.id != f"{world.world_id}/{path.stem}":
        raise ConfigError(
            f"{path}:1: the id must be {world.world_id}/{path.stem}, after domain and file name"
        )
    public = facts.model_dump(mode="json")
    tags = {"domain": world.world_id, **public["tags"]}
    told = [name for name, server in world.servers.items() if server.lifecycle.init]
    inits = read_inits(world.folder / INITS / f"{path.stem}.json", told)
    own = {"inits": content_hash(inits)} if inits else {}
    return Task(
        task_id=facts.id,
        task_hash=content_hash({**public, **own, "world_hash": world.world_hash}),
        world=world,
        opening=facts.opening,
        limits=facts.limits,
        tags=dict(sorted(tags.items())),
        inits=inits,
    )


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenWorld(f"{path}: cannot be read: {error}") from error
    return data


def _code(folder: Path) -> dict[str, bytes]:
    """What lies in a world's folder of servers; what Python compiled there is none of it."""
    return {
        path.relative_to(folder.parent).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _load_tools(path: Path, world_hash: str, *, may_lack: bool) -> dict[str, Tool]:
    spec = importlib.util.spec_from_file_location(f"envfarm_world_{world_hash[:16]}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    _execute(spec.loader, module, path)
    found = [
        value.envfarm_tool
        for value in vars(module).values()
        if isinstance(getattr(value, "envfarm_tool", None), Tool)
        and value.__module__ == module.__name__
    ]
    if not found and not may_lack:
        raise BrokenWorld(f"{path}: it declares no tool", hint="decorate one with @tool(READ)")
    return {item.name: item for item in found}


def _execute(loader: object, module: ModuleType, path: Path) -> None:
    try:
        loader.exec_module(module)  # pyright: ignore[reportAttributeAccessIssue]
    except _IMPORT_ERRORS as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else 1)
        raise BrokenWorld(f"{path}:{line}: {type(error).__name__}: {error}") from error
