"""A task as its author wrote it, and its opening with names, numbers and dates masked."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envfarm_cli.domain_files import TaskFiles, read_yaml

MASK = "*"
_EMAIL = re.compile(r"\S+@\S+\.\w+")
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
)
_DATE_WORD = re.compile(rf"\b(?:{_MONTHS})s?\b", re.IGNORECASE)
_WITH_DIGIT = re.compile(r"\b[\w-]*\d[\w.,:/-]*")
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-ZÄÖÜ]\w+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\*")


@dataclass(frozen=True, slots=True)
class TaskText:
    """The three files of one task, read."""

    task_id: str
    domain: str
    public: dict[str, Any]
    user: dict[str, Any]
    private: dict[str, Any]

    @property
    def opening(self) -> str:
        return str(self.public.get("opening", "")).strip()

    @property
    def workflow(self) -> str:
        return self.tag("workflow")

    def tag(self, name: str) -> str:
        return str((self.public.get("tags") or {}).get(name, ""))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Of the golden run, in order."""
        return list((self.private.get("golden") or {}).get("actions") or [])

    @property
    def golden_reply(self) -> str:
        return str((self.private.get("golden") or {}).get("reply", "")).strip()

    @property
    def skeleton(self) -> tuple[str, ...]:
        """The tools of the golden run, in order."""
        return tuple(str(call.get("tool")) for call in self.calls)


def read_task(files: TaskFiles) -> TaskText:
    """BadInput names the file and line at fault."""
    parts = (read_yaml(path) for path in (files.public, files.user, files.private))
    return TaskText(files.task_id, files.domain, *parts)


def masked_words(text: str) -> frozenset[str]:
    """The different words of a text in small letters; emails, ids, numbers, dates and names are one mask.

    A name is a word with a capital letter that does not begin a sentence.
    """
    for pattern in (_EMAIL, _WITH_DIGIT, _DATE_WORD, _NAME):
        text = pattern.sub(MASK, text)
    return frozenset(word.lower() for word in _WORD.findall(text))


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared words by all words of two texts; 1 for two empty ones."""
    return len(one & other) / len(one | other) if one | other else 1.0


def frequent_skeletons(
    tasks: Sequence[TaskText], most: int
) -> list[tuple[str, tuple[str, ...], int]]:
    """Domain, call skeleton and number of tasks of those that occur more than `most` times."""
    counted = Counter((task.domain, task.skeleton) for task in tasks)
    found = [(domain, skeleton, count) for (domain, skeleton), count in counted.items()]
    return sorted((item for item in found if item[2] > most), key=lambda item: (-item[2], item))


def similar_pairs(tasks: Sequence[TaskText], least: float) -> list[tuple[float, str, str]]:
    """Pairs of openings with at least this Jaccard index, the most alike first."""
    words = [masked_words(task.opening) for task in tasks]
    found = [
        (value, tasks[first].task_id, tasks[second].task_id)
        for second in range(len(tasks))
        for first in range(second)
        if (value := jaccard(words[first], words[second])) >= least
    ]
    return sorted(found, key=lambda pair: (-pair[0], pair[1], pair[2]))
