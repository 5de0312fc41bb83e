"""Tasks that must not be trained on: a benchmark's, by id, by content, and by copies under new names."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from envfarm.errors import ConfigError

from envfarm_numbers.benchmarks import Benchmarks
from envfarm_numbers.suite import SELECTION_KEY, Suite, read_object
from envfarm_numbers.task_facts import TaskFacts


@dataclass(slots=True)
class Exclusions:
    """Ids and hashes of which any one excludes a task."""

    ids: set[str] = field(default_factory=set)
    task_hashes: set[str] = field(default_factory=set)
    text_hashes: set[str] = field(default_factory=set)
    golden_hashes: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Self:
        """From suites, or from text files of one id or content hash a line (# begins a remark)."""
        found = cls()
        for path in paths:
            if path.suffix == ".json":
                found.add_suite(_suite(path))
            else:
                found.add_lines(path)
        return found

    def add_suite(self, suite: Suite) -> None:
        self.ids |= set(suite.tasks)
        self.task_hashes |= set(suite.tasks.values())
        for content in suite.content.values():
            self.text_hashes |= {content.get("text_hash", "")} - {""}
            self.golden_hashes |= {content.get("golden_hash", "")} - {""}

    def add_lines(self, path: Path) -> None:
        """ConfigError names the line that is neither an id nor a hash, or is there twice."""
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read as a list of tasks: {error}") from error
        seen: dict[str, int] = {}
        for number, line in enumerate(lines, 1):
            word = line.partition("#")[0].strip()
            if not word:
                continue
            if word in seen:
                raise ConfigError(f"{path}:{number}: {word} is already in line {seen[word]}")
            seen[word] = number
            if len(word) == 64 and not set(word) - set("0123456789abcdef"):
                self.task_hashes.add(word)
            elif "/" in word and len(word.split()) == 1:
                self.ids.add(word)
            else:
                raise ConfigError(
                    f"{path}:{number}: {word!r} is neither a task id nor a content hash",
                    hint="an id looks like orders/refund-damaged, a hash has 64 hexadecimal digits",
                )

    def reasons(self, task: TaskFacts) -> list[str]:
        """Why the task is excluded; empty when it is not. A public benchmark's always is."""
        benchmark = Benchmarks.known().of(task)
        told = [f"excluded: {benchmark} is for evaluation only"] if benchmark else []
        return told + [
            reason
            for reason, value, known in (
                ("excluded: its id is on the list", task.task_id, self.ids),
                ("excluded: its content is on the list", task.task_hash, self.task_hashes),
                ("excluded: its text is that of a listed task", task.text_hash, self.text_hashes),
                (
                    "excluded: its world and golden run are those of a listed task",
                    task.golden_hash,
                    self.golden_hashes,
                ),
            )
            if value and value in known
        ]


def _suite(path: Path) -> Suite:
    biased = SELECTION_KEY in read_object(path, "a suite")
    return Suite.read(path, biased=biased)
