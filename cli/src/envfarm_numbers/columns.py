"""Attempt rows as columns: what counting needs of hundreds of thousands of rows, without the rows.

Names and hashes are kept once and pointed at by numbers, so that checks and sums are NumPy's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from envfarm.errors import ConfigError
from numpy.typing import NDArray

from envfarm_numbers.rows import LineReader, check_reward, duplicate, second_reward

IDENTITY = ("policy_hash", "renderer_hash", "sampling_hash", "interface")
"""Columns that must not change within one campaign."""
CONTENT = ("task_hash", "world_hash", "checks_hash")
"""Columns that must not change within one task; empty where an attempt never got so far."""
_KEY = ("task_id", "repetition", "attempt", "reward")


class Columns:
    """Grows by `add`; the checks name the first row that is wrong, by `place(its index)`."""

    def __init__(self, place: Callable[[int], str]):
        self._place = place
        self._task_numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._content_numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self.identities: set[tuple[str, ...]] = set()
        self.task = self.repetition = self.attempt = self.content = np.empty(0, np.int64)
        self.reward = np.empty(0)
        """NaN where there is none."""

    @property
    def names(self) -> list[str]:
        """Task id by its number."""
        return list(self._task_numbers)

    @property
    def contents(self) -> list[tuple[str, ...]]:
        """Hashes in the order of CONTENT, by their number."""
        return list(self._content_numbers)

    def add(self, records: Sequence[Any]) -> None:
        """Records with all attributes of _KEY, CONTENT and IDENTITY."""
        tasks, repetitions, attempts, rewards = (_values(records, name) for name in _KEY)
        contents = zip(*(_values(records, name) for name in CONTENT), strict=True)
        self.identities.update(zip(*(_values(records, name) for name in IDENTITY), strict=True))
        self._parts.append(
            (
                _numbers(map(self._task_numbers.__getitem__, tasks)),
                _numbers(repetitions),
                _numbers(attempts),
                _numbers(map(self._content_numbers.__getitem__, contents)),
                np.array(rewards, dtype=np.float64),
            )
        )

    def close(self) -> None:
        """Nothing is added any more. ConfigError for a reward that is neither 0 nor 1, a key that is
        there twice, two rewards of one repetition."""
        joined = [np.concatenate(part) for part in zip(*self._parts, strict=True)]
        self._parts.clear()
        self.task, self.repetition, self.attempt, self.content, self.reward = joined
        wrong = np.flatnonzero(~(np.isnan(self.reward) | np.isin(self.reward, (0.0, 1.0))))
        if wrong.size:
            check_reward(self._place(int(wrong[0])), float(self.reward[wrong[0]]))
        again = _first_again(self.task, self.repetition, self.attempt)
        if again:
            first, second = again
            raise duplicate(self._place(second), self._place(first), self._key(second))
        clean = np.flatnonzero(~np.isnan(self.reward))
        again = _first_again(self.task[clean], self.repetition[clean])
        if again:
            first, second = (int(clean[index]) for index in again)
            raise second_reward(self._place(second), self._place(first), self._key(second))

    def content_of_tasks(self) -> list[dict[str, str]]:
        """For each task number its hashes; ConfigError when one changes on the way."""
        kinds = max(1, len(self._content_numbers))
        pairs, firsts = np.unique(self.task * kinds + self.content, return_index=True)
        found: list[dict[str, str]] = [dict.fromkeys(CONTENT, "") for _ in self._task_numbers]
        contents, names = self.contents, self.names
        for index in np.argsort(firsts):
            task, number = divmod(int(pairs[index]), kinds)
            known = found[task]
            for name, new in zip(CONTENT, contents[number], strict=True):
                if new and known[name] and new != known[name]:
                    raise ConfigError(
                        f"{self._place(int(firsts[index]))}: {name} of {names[task]} is {new[:12]}, "
                        f"and {known[name][:12]} in earlier rows",
                        hint="the task changed while the campaign ran; run it again on the new content",
                    )
                known[name] = new or known[name]
        return found

    def per_task(self, chosen: NDArray[np.bool_]) -> list[int]:
        """How many of the chosen rows each task has, by its number."""
        return np.bincount(self.task[chosen], minlength=len(self._task_numbers)).tolist()

    def _key(self, index: int) -> tuple[str, int, int]:
        return (
            self.names[int(self.task[index])],
            int(self.repetition[index]),
            int(self.attempt[index]),
        )


def read_columns(files: Sequence[Path]) -> Columns:
    """Of all rows of the files. ConfigError: a line that is no row, no row at all, and as `close`."""
    starts: list[tuple[int, Path]] = []

    def place(index: int) -> str:
        start, path = max(known for known in starts if known[0] <= index)
        return f"{path}:{index - start + 1}"

    reader = LineReader((*_KEY, *CONTENT, *IDENTITY))
    columns, rows = Columns(place), 0
    for path in files:
        before = rows
        for _, records in reader.blocks(path):
            columns.add(records)
            rows += len(records)
        if rows > before:
            starts.append((before, path))
    if not rows:
        raise ConfigError(f"{files[0]}: no row in it yet")
    columns.close()
    return columns


def _values(records: Sequence[Any], name: str) -> list[Any]:
    return list(map(attrgetter(name), records))


def _numbers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _first_again(*keys: NDArray[np.int64]) -> tuple[int, int] | None:
    """(index of the first, of the second) of the earliest row whose key was there before."""
    order = np.lexsort(keys[::-1])
    same = np.ones(max(0, len(order) - 1), bool)
    for key in keys:
        same &= np.diff(key[order]) == 0
    if not same.any():
        return None
    seconds = np.flatnonzero(same) + 1
    at = seconds[np.argmin(order[seconds])]
    return int(order[at - 1]), int(order[at])
