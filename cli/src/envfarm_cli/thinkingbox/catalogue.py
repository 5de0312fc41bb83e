"""A catalogue of a dataset: ids, hashes and facts in one file, contents in three, by who may see them.

    catalogue.json  per task: id, uid, hashes, servers, tools, needs, obstacles; no content
    suite.json      the tasks as `envfarm select --exclude` takes them
    agent.jsonl     what the agent's side may know
    user.jsonl      what the simulated user knows
    private.jsonl   init with golden calls, and the test's code: for a grader alone

The same dataset gives the same bytes; nothing names a place on this machine.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envfarm.canonical import canonical_json, content_hash
from envfarm.errors import ConfigError

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.thinkingbox.dataset import Hydrated
from envfarm_cli.thinkingbox.hosting import needs, obstacles
from envfarm_cli.thinkingbox.server_list import Server
from envfarm_numbers.benchmarks import Benchmarks
from envfarm_numbers.suite import Suite
from envfarm_numbers.task_facts import TaskFacts, text_hash

_AGENT = ("agent", "tools", "bot_instructions", "history", "query", "max_agent_sim_turns")
_USER = ("user_context", "max_user_sim_turns")
_PRIVATE = ("scenario", "world_state", "format_query", "fixtures", "tags", "test_code")
_WORD = re.compile(r"[^a-z0-9_-]+")


def task_id(uid: str) -> str:
    """FILE.py:TEST as an id of ours: file/test in lower case."""
    file, _, test = uid.partition(":")
    parts = [_WORD.sub("-", part.lower()).lstrip("_-") for part in (file.rpartition(".")[0], test)]
    return "/".join(part or "x" for part in parts)


def entries(
    tasks: Iterable[Hydrated], servers: Mapping[str, Server], benchmarks: Benchmarks
) -> list[dict[str, Any]]:
    """One per task, in id order; ConfigError when two tasks get the same id."""
    found: dict[str, dict[str, Any]] = {}
    for task in tasks:
        name, text = task_id(task.uid), text_hash(task.content["query"])
        if name in found:
            raise ConfigError(f"{task.place}: {task.uid} and {found[name]['uid']} are both {name}")
        found[name] = {
            "id": name,
            "uid": task.uid,
            "task_hash": task.hash,
            "text_hash": text,
            "servers": list(task.content["world_state"]),
            "tools": [tool["name"] for tool in task.content["tools"]],
            "tags": task.content["tags"],
            "needs": needs(task),
            "obstacles": obstacles(task, servers),
            "benchmark": benchmarks.of(
                TaskFacts(task_id=name, task_hash=task.hash, text_hash=text)
            ),
        }
    return [found[name] for name in sorted(found)]


def write(
    folder: Path,
    listed: list[dict[str, Any]],
    tasks: Iterable[Hydrated],
    servers: Mapping[str, Server],
) -> str:
    """All files, the catalogue last; its hash, over every task and every server that one names."""
    ordered = sorted(tasks, key=lambda task: task_id(task.uid))
    facts = [
        TaskFacts(task_id=entry["id"], task_hash=entry["task_hash"], text_hash=entry["text_hash"])
        for entry in listed
    ]
    used = {name for entry in listed for name in entry["servers"]}
    known = {name: servers[name].mount for name in sorted(used & servers.keys())}
    body = {"format": 1, "tasks": listed, "servers": known}
    whole = {**body, "hash": content_hash(body)}
    write_durably(folder / "suite.json", Suite.freeze(folder.name, facts).to_json().encode())
    for name, keys, mode in (
        ("agent.jsonl", _AGENT, 0o644),
        ("user.jsonl", _USER, 0o600),
        ("private.jsonl", _PRIVATE, 0o600),
    ):
        lines = [
            canonical_json({"id": task_id(task.uid), **{key: task.content[key] for key in keys}})
            for task in ordered
        ]
        write_durably(folder / name, ("\n".join(lines) + "\n").encode(), mode)
    text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    write_durably(folder / "catalogue.json", text.encode())
    return whole["hash"]
