"""What is known of a task without running it, and when two tasks are the same in all but name."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from envfarm.canonical import content_hash

_WORDS = re.compile(r"\w+", re.UNICODE)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFacts:
    """From the domain's files, or from the rows alone; then text and golden run are unknown."""

    task_id: str
    task_hash: str
    world_hash: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    text_hash: str = ""
    """Of the opening, in lower case and without punctuation; empty when unknown."""
    golden_hash: str = ""
    """Of the world and the golden actions; empty when unknown."""

    @property
    def domain(self) -> str:
        return self.task_id.partition("/")[0]

    @property
    def workflow(self) -> str:
        return self.tags.get("workflow", "")


def text_hash(text: str) -> str:
    """Equal for texts of the same words in the same order, whatever their case and punctuation."""
    words = _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())
    return content_hash(words)


def golden_hash(world_hash: str, actions: list[dict[str, Any]]) -> str:
    """Equal for tasks of one world whose golden runs make the same calls."""
    calls = [[action.get("tool"), action.get("arguments") or {}] for action in actions]
    return content_hash([world_hash, calls])


def near_duplicates(tasks: Iterable[TaskFacts]) -> list[dict[str, Any]]:
    """Groups of ids that share a content hash, a text or a golden run: `same` says which."""
    found = []
    known = list(tasks)
    for same in ("task_hash", "text_hash", "golden_hash"):
        groups: dict[str, list[str]] = {}
        for task in known:
            if value := getattr(task, same):
                groups.setdefault(value, []).append(task.task_id)
        found += [
            {"same": same, "hash": value, "tasks": sorted(ids)}
            for value, ids in sorted(groups.items())
            if len(ids) > 1
        ]
    return found


def families(tasks: Iterable[TaskFacts]) -> list[list[str]]:
    """All ids, those that are near duplicates of each other together; in id order."""
    known = sorted(tasks, key=lambda task: task.task_id)
    parent = {task.task_id: task.task_id for task in known}

    def root(task_id: str) -> str:
        while parent[task_id] != task_id:
            parent[task_id] = parent[parent[task_id]]
            task_id = parent[task_id]
        return task_id

    for group in near_duplicates(known):
        first, *others = group["tasks"]
        for other in others:
            parent[root(other)] = root(first)
    groups: dict[str, list[str]] = {}
    for task in known:
        groups.setdefault(root(task.task_id), []).append(task.task_id)
    return sorted(groups.values())
