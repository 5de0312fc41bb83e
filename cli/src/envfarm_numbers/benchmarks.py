"""Public benchmarks whose authors ask that nobody trains on them: known by hashes, without content.

A task is one of a benchmark when its id, its content or the words of its first message have a hash that
is on the list, so a copy under another name is one, too. Each benchmark is a file of this package:

    {"name": "…", "ids": [sha256 of an id], "contents": [task hash], "texts": [text hash]}
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from envfarm.canonical import bytes_hash
from envfarm.errors import ConfigError

from envfarm_numbers.task_facts import TaskFacts

SHOWN = 3
BENCH = "thinkingbox-bench-v1"
BENCH_REPETITIONS = 20
"""Runs of each task that its authors' protocol wants."""


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """All that are known."""

    by_id: dict[str, str]
    """SHA-256 (hex) of a task id → name of the benchmark."""
    by_content: dict[str, str]
    by_text: dict[str, str]

    @staticmethod
    def known() -> "Benchmarks":
        """Those that come with envfarm."""
        return _known()

    def of(self, task: TaskFacts) -> str:
        """Name of the benchmark that the task is one of; empty when of none."""
        return (
            self.by_id.get(id_hash(task.task_id), "")
            or self.by_content.get(task.task_hash, "")
            or self.by_text.get(task.text_hash, "")
        )

    def refuse(self, tasks: Iterable[TaskFacts], what: str) -> None:
        """ConfigError when one of `tasks` is of a benchmark; `what` says what was to be done."""
        found = {task.task_id: name for task in tasks if (name := self.of(task))}
        if found:
            named = ", ".join(list(found)[:SHOWN])
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            raise ConfigError(
                f"{what}: {named}{more} of {next(iter(found.values()))} are for evaluation only",
                hint="choose other tasks; `envfarm eval` may run these",
            )


def list_of(name: str, entries: Iterable[dict[str, Any]]) -> str:
    """The text of a file of this package for the tasks of an import's catalogue."""
    known = list(entries)
    value = {
        "name": name,
        "ids": sorted({id_hash(entry[key]) for entry in known for key in ("id", "uid")}),
        "contents": sorted({entry["task_hash"] for entry in known}),
        "texts": sorted({entry["text_hash"] for entry in known}),
    }
    return json.dumps(value, indent=0) + "\n"


def size_of(name: str) -> int:
    """Tasks of a benchmark; 0 for one that is not known."""
    return sum(known == name for known in Benchmarks.known().by_content.values())


def id_hash(task_id: str) -> str:
    return bytes_hash(task_id.encode())


@cache
def _known() -> Benchmarks:
    found = Benchmarks({}, {}, {})
    for path in sorted(files("envfarm_numbers.benchmark_lists").iterdir(), key=str):
        if path.name.endswith(".json"):
            listed = json.loads(path.read_bytes())
            name = listed["name"]
            found.by_id.update(dict.fromkeys(listed["ids"], name))
            found.by_content.update(dict.fromkeys(listed["contents"], name))
            found.by_text.update(dict.fromkeys(listed["texts"], name))
    return found
