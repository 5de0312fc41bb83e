"""Tasks of a dataset as domains of ours, in the three parts: docs/thinkingbox.md says what lies where.

The same tasks and options give the same bytes, but for the link to the virtual environment.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envfarm.canonical import canonical_json, content_hash
from envfarm.errors import ConfigError

from env_server.task_inits import WITHHELD
from envfarm_cli.campaign.files import write_durably
from envfarm_cli.thinkingbox.dataset import Hydrated
from envfarm_cli.thinkingbox.server_list import PYTHON, Server

LIFECYCLE = {
    "init": "__reserved__init",
    "effects": "__reserved__geteffects",
    "teardown": "__reserved__teardown",
    "may_lack": True,
}
ENVIRONMENT = "environment"
"""Name of the link below world/servers/."""
MAX_ACTIONS = 1000
"""Turns and tool calls where the dataset sets no limit."""
LIMITS = {"max_turn_tokens": 8192, "max_total_tokens": 26_624 + 106_496, "max_tool_seconds": 600}
"""Of the reference recipe."""
SCHEMA = """\
-- A world has a table at least; all state of this one is its servers'.
CREATE TABLE origin (scenario text PRIMARY KEY);
"""
NO_TOOLS = '"""All tools of this world are its servers\'."""\n'
INDEX = "hosted.json"
_APART = "thinkingbox"
"""Folder of what our own files have no place for."""
_TASK_FOLDERS = ("tasks", "inits", "user", "private", _APART)
_MAX_NAME = 63
_TALK = (
    *("history", "query", "user_context", "max_user_sim_turns", "max_agent_sim_turns"),
    *("bot_instructions", "tools"),
)
_PRIVATE = ("scenario", "tags", "fixtures", "test_code")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class Hosting:
    """What the dataset's files do not say."""

    now: str
    """The frozen clock, ISO 8601 with its zone."""
    environment: Path | None
    """Virtual environment of the servers' programs."""
    variables: Mapping[str, str]
    """For every server with a command, on top of the servers file's."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A task and where it goes."""

    world: str
    entry: dict[str, Any]
    task: Hydrated

    @property
    def slug(self) -> str:
        return self.entry["id"].partition("/")[2]


def write(
    folder: Path,
    listed: Iterable[dict[str, Any]],
    tasks: Iterable[Hydrated],
    servers: Mapping[str, Server],
    hosting: Hosting,
) -> dict[str, list[str]]:
    """Every task without obstacles; world → its task ids. ConfigError when a command needs a virtual
    environment and none is given."""
    entries = {entry["uid"]: entry for entry in listed}
    free = [task for task in tasks if not entries[task.uid]["obstacles"]]
    used = {name for task in free for name in task.content["world_state"]}
    wants = [n for n in sorted(used) if servers[n].mount.get("command", [""])[0] == PYTHON]
    if wants and hosting.environment is None:
        raise ConfigError(
            f"server {wants[0]} is a program of Python and no virtual environment is given",
            hint="give the one in which the dataset's servers are installed with --environment",
        )
    placed = _place(free, entries)
    _forget(folder, {f"{item.world}/{item.slug}" for item in placed})
    found: dict[str, list[str]] = {}
    for item in placed:
        if item.world not in found:
            _write_world(folder / item.world, item, servers, hosting)
        _write_task(folder / item.world, item)
        found.setdefault(item.world, []).append(f"{item.world}/{item.slug}")
    _write_index(folder, placed, entries)
    return found


def withheld(world_state: Mapping[str, Mapping[str, Any]]) -> tuple[dict, dict]:
    """What a server's init may be told, and what only a grader may know of it, by server."""
    told: dict[str, dict[str, Any]] = {}
    kept: dict[str, dict[str, Any]] = {}
    for server, config in world_state.items():
        for key, value in (config or {}).items():
            is_golden = any(word in key.lower() for word in WITHHELD)
            (kept if is_golden else told).setdefault(server, {})[key] = value
    return told, kept


def _place(free: list[Hydrated], entries: Mapping[str, dict[str, Any]]) -> list[_Placed]:
    """Tasks in id order; those that share file, servers, tools and policy share a world."""
    ordered = sorted(free, key=lambda task: entries[task.uid]["id"])
    kinds: dict[str, list[tuple[str, str]]] = {}
    for task in ordered:
        known = kinds.setdefault(_file(entries, task), [])
        if _kind(task) not in known:
            known.append(_kind(task))
    found = []
    for task in ordered:
        file = _file(entries, task)
        name = file
        if len(kinds[file]) > 1:
            scenario = _kind(task)[0]
            same = [kind for kind in kinds[file] if kind[0] == scenario]
            number = f"-{same.index(_kind(task)) + 1}" if len(same) > 1 else ""
            name = f"{file}--{_slug(scenario)}{number}"
        if len(name) > _MAX_NAME:
            name = f"{name[: _MAX_NAME - 9]}-{content_hash(name)[:8]}"
        found.append(_Placed(name, entries[task.uid], task))
    return found


def _forget(folder: Path, kept: set[str]) -> None:
    """Remove the tasks of an earlier import that are not of this one; pinned tools stay."""
    index = folder / INDEX
    if not index.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(
                f"{folder} holds something and no {INDEX}", hint="choose an empty folder"
            )
        return
    try:
        known = {item["id"] for item in json.loads(index.read_bytes())["hosted"].values()}
    except (ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"{index} is damaged", hint="choose an empty folder") from error
    for task_id in known - kept:
        world, _, slug = task_id.partition("/")
        for path in (folder / world).rglob(f"{slug}.*"):
            if path.parent.name in _TASK_FOLDERS:
                path.unlink()


def _file(entries: Mapping[str, dict[str, Any]], task: Hydrated) -> str:
    return entries[task.uid]["id"].partition("/")[0]


def _kind(task: Hydrated) -> tuple[str, str]:
    """Scenario, and a hash of what all tasks of a world have in common."""
    content = task.content
    common = [[*content["world_state"]], [tool["name"] for tool in content["tools"]], _policy(task)]
    return content["scenario"], content_hash(common)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower())


def _policy(task: Hydrated) -> str:
    parts = (task.content["agent"]["system_instructions"], task.content["bot_instructions"])
    return "\n\n".join(part for part in parts if part)


def _write_world(
    domain: Path, first: _Placed, servers: Mapping[str, Server], hosting: Hosting
) -> None:
    world, content = domain / "world", first.task.content
    mounts = {name: _mount(servers[name], hosting) for name in content["world_state"]}
    facts = {
        "world": first.world,
        "now": hosting.now,
        "description": f"Scenario {content['scenario']} of a ThinkingBox dataset, hosted.",
        "offer": [tool["name"] for tool in content["tools"]],
        "servers": mounts,
    }
    for name, text in (
        ("world.yaml", _yaml(facts)),
        ("schema.sql", SCHEMA),
        ("seed.sql", f"INSERT INTO origin VALUES ({_literal(content['scenario'])});\n"),
        ("tools.py", NO_TOOLS),
        ("policy.md", _policy(first.task)),
    ):
        _put(world / name, text)
    link = world / "servers" / ENVIRONMENT
    if hosting.environment:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(hosting.environment.absolute())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _mount(server: Server, hosting: Hosting) -> dict[str, Any]:
    mount = {**server.mount, "lifecycle": LIFECYCLE}
    if "command" in server.mount:
        mount["variables"] = {**server.mount["variables"], **hosting.variables}
        if hosting.environment:
            mount["environment"] = ENVIRONMENT
        if server.mount["command"][0] == PYTHON and server.mount["command"][1:2] == ["-m"]:
            mount |= {"start": "forked", "clock": "frozen"}
    return mount


def _write_task(domain: Path, item: _Placed) -> None:
    content, slug = item.task.content, item.slug
    task_id = f"{item.world}/{slug}"
    told, golden = withheld(content["world_state"])
    actions = max(1, min(content["max_agent_sim_turns"], MAX_ACTIONS))
    public = {
        "id": task_id,
        "opening": content["query"],
        "limits": {"max_turns": actions, "max_tool_calls": actions, **LIMITS},
        "tags": {
            "workflow": content["tags"]["domain"] or content["scenario"],
            "failure_mode": next(iter(content["tags"]["category"]), "unknown"),
            "split": "eval" if item.entry["benchmark"] else "train",
        },
    }
    talk = {**{key: content[key] for key in _TALK}, **content["agent"]}
    private = {"uid": item.task.uid, **{key: content[key] for key in _PRIVATE}, "golden": golden}
    user = {"task": task_id, "context": content["user_context"] or ""}
    for path, text, mode in (
        (domain / "world" / "tasks" / f"{slug}.yaml", _yaml(public), 0o644),
        (domain / "world" / "inits" / f"{slug}.json", canonical_json(told) + "\n", 0o644),
        (domain / "user" / f"{slug}.yaml", _yaml(user), 0o600),
        (domain / "user" / _APART / f"{slug}.json", canonical_json(talk) + "\n", 0o600),
        (domain / "private" / _APART / f"{slug}.json", canonical_json(private) + "\n", 0o600),
    ):
        _put(path, text, mode)


def _write_index(
    folder: Path, placed: Iterable[_Placed], entries: Mapping[str, dict[str, Any]]
) -> None:
    hosted = {
        item.task.uid: {
            "id": f"{item.world}/{item.slug}",
            "world": item.world,
            "task_hash": item.entry["task_hash"],
        }
        for item in placed
    }
    left = {uid: entry["obstacles"] for uid, entry in entries.items() if entry["obstacles"]}
    text = json.dumps({"format": 1, "hosted": hosted, "left_out": left}, indent=1, sort_keys=True)
    write_durably(folder / INDEX, text.encode() + b"\n")


def _put(path: Path, text: str, mode: int = 0o644) -> None:
    """Not for good by itself: the index, which is written last, says that all is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode)
    path.chmod(mode)
    path.write_text(text, encoding="utf-8")


def _yaml(value: Any) -> str:
    """JSON, which is YAML once what YAML does not print is escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"
