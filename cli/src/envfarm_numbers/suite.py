"""Evaluation suites: frozen lists of tasks at their content hashes, and the rule against biased ones.

A suite is written by `envfarm suite freeze` alone. A selection was made by looking at results, so a
figure on its tasks is biased: it is refused unless asked for, and then the headline says so.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from envfarm.canonical import content_hash
from envfarm.errors import ConfigError

from envfarm_numbers.task_facts import TaskFacts

BIASED = (
    "Biased suite: its tasks were selected by looking at results; do not compare it with others."
)
SELECTION_KEY = "selection"
"""Top-level key of every file that a selection writes."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks in id order."""

    name: str
    tasks: dict[str, str]
    """Task id → content hash."""
    content: dict[str, dict[str, str]]
    """Task id → text_hash and golden_hash where known: for excluding copies from training."""
    biased: bool = False

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of ids and content hashes; the name does not count."""
        return content_hash(sorted(self.tasks.items()))

    @property
    def warning(self) -> str:
        """For the headline of every report; empty for a frozen suite."""
        return BIASED if self.biased else ""

    @classmethod
    def freeze(cls, name: str, tasks: Iterable[TaskFacts]) -> Self:
        """ConfigError when there is no task, one id twice, or one without a content hash."""
        known = sorted(tasks, key=lambda task: task.task_id)
        if not known:
            raise ConfigError("a suite without tasks measures nothing")
        for one, other in pairwise(known):
            if one.task_id == other.task_id:
                raise ConfigError(f"task {one.task_id} is given twice")
        if nameless := [task.task_id for task in known if not task.task_hash]:
            raise ConfigError(f"task {nameless[0]} has no content hash")
        return cls(
            name,
            {task.task_id: task.task_hash for task in known},
            {
                task.task_id: {"text_hash": task.text_hash, "golden_hash": task.golden_hash}
                for task in known
                if task.text_hash or task.golden_hash
            },
        )

    def to_json(self) -> str:
        """The file's text: same suite, same bytes."""
        value = {
            "name": self.name,
            "hash": self.hash,
            "biased": self.biased,
            "tasks": self.tasks,
            "content": self.content,
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path, *, biased: bool = False) -> Self:
        """ConfigError when it is no suite, was edited, or holds selected tasks and `biased` is not
        asked for."""
        value = read_object(path, "a suite")
        if (SELECTION_KEY in value or value.get("biased")) and not biased:
            raise ConfigError(
                f"{path} is a selection of training tasks, not an evaluation suite",
                hint="freeze a suite with `envfarm suite freeze`, or say --biased-suite and the "
                "report will say it, too",
            )
        if SELECTION_KEY in value:
            return cls(path.stem, _hashes(path, value), {}, biased=True)
        try:
            suite = cls(
                str(value["name"]),
                _hashes(path, value),
                dict(value.get("content") or {}),
                biased=bool(value.get("biased")),
            )
            known = str(value["hash"])
        except KeyError as error:
            raise ConfigError(f"{path} is no suite: {error} is missing") from error
        if suite.hash != known:
            raise ConfigError(
                f"{path}: its tasks have the hash {suite.hash[:12]}…, it says {known[:12]}…",
                hint="a suite is never edited; freeze a new one",
            )
        return suite

    def check(self, served: dict[str, str]) -> None:
        """ConfigError when a task is missing or has another content; `served` is id → hash."""
        changed = [task for task, known in self.tasks.items() if served.get(task) != known]
        if changed:
            raise ConfigError(
                f"suite {self.name}: {len(changed)} of its {len(self.tasks)} tasks are not as they "
                f"were frozen: {', '.join(changed[:3])}",
                hint="use the version of the domains that it was frozen with, or freeze a new suite",
            )


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in `path`; ConfigError names file and reason."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {path}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as {what}: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not {what}: a JSON object is expected")
    return value


def _hashes(path: Path, value: dict[str, Any]) -> dict[str, str]:
    tasks = value.get("tasks")
    if not isinstance(tasks, dict) or not tasks:
        raise ConfigError(f"{path}: tasks must be an object of task ids and content hashes")
    if wrong := [task for task, known in tasks.items() if not isinstance(known, str)]:
        raise ConfigError(f"{path}: the content hash of {wrong[0]} is not a text")
    return dict(sorted(tasks.items()))
