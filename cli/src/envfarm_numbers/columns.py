"""Attempt rows as columns: what counting needs of hundreds of thousands of rows, without the rows.

Names and hashes are kept once and pointed at by numbers, so that checks and sums are NumPy's.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Any

import numpy as np
from envfarm.errors import ConfigError
from numpy.typing import NDArray

from envfarm_numbers.rows import check_reward, duplicate, second_reward

IDENTITY = ("policy_hash", "renderer_hash", "sampling_hash", "interface")
"""Columns that must not change within one campaign."""
CONTENT = ("task_hash", "world_hash", "checks_hash")
"""Columns that must not change within one task; empty where an attempt never got so far."""
_KEY = ("task_id", "repetition", "attempt", "reward")
WANTED = (*_KEY, *CONTENT, *IDENTITY)
"""What a record must have."""
_task, _repetition, _attempt, _reward = map(attrgetter, _KEY)
_origin = attrgetter(*CONTENT, *IDENTITY)
"""One tuple for both, since looking it up is most of the work; a campaign has few more than tasks."""


@dataclass(frozen=True, slots=True)
class Part:
    """Columns of some rows, as one process hands them to another."""

    names: list[str]
    origins: list[tuple[str, ...]]
    values: tuple[NDArray[Any], ...]
    """Number of the task, repetition, attempt, number of the origin, reward: a row in each."""

    @property
    def rows(self) -> int:
        return len(self.values[0])


class Columns:
    """Grows by `add`; the checks name the first row that is wrong, by `place(its index)`."""

    def __init__(self, place: Callable[[int], str]):
        self._place = place
        self._task_numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._origin_numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)
        self.task = self.repetition = self.attempt = self.origin = np.empty(0, np.int64)
        self.reward = np.empty(0)
        """NaN where there is none."""
        self._values: list[tuple[NDArray[Any], ...]] = [
            (self.task, self.repetition, self.attempt, self.origin, self.reward)
        ]

    @property
    def names(self) -> list[str]:
        """Task id by its number."""
        return list(self._task_numbers)

    @property
    def identities(self) -> set[tuple[str, ...]]:
        """What the campaign was made with, in the order of IDENTITY."""
        return {origin[len(CONTENT) :] for origin in self._origin_numbers}

    def add(self, records: Sequence[Any]) -> None:
        """Records with all attributes of WANTED."""
        rows = len(records)
        tasks = map(self._task_numbers.__getitem__, map(_task, records))
        origins = map(self._origin_numbers.__getitem__, map(_origin, records))
        self._values.append(
            (
                np.fromiter(tasks, np.int64, rows),
                np.fromiter(map(_repetition, records), np.int64, rows),
                np.fromiter(map(_attempt, records), np.int64, rows),
                np.fromiter(origins, np.int64, rows),
                np.array(list(map(_reward, records)), dtype=np.float64),
            )
        )

    def part(self) -> Part:
        """What was added so far."""
        return Part(self.names, list(self._origin_numbers), self._joined())

    def add_part(self, part: Part) -> None:
        """Rows that other columns hold; they follow those that are here."""
        task, repetition, attempt, origin, reward = part.values
        tasks = np.array([self._task_numbers[name] for name in part.names], np.int64)
        origins = np.array([self._origin_numbers[one] for one in part.origins], np.int64)
        self._values.append((tasks[task], repetition, attempt, origins[origin], reward))

    def close(self) -> None:
        """Nothing is added any more. ConfigError for a reward that is neither 0 nor 1, a key that is
        there twice, two rewards of one repetition."""
        self.task, self.repetition, self.attempt, self.origin, self.reward = self._joined()
        self._values.clear()
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
        kinds = max(1, len(self._origin_numbers))
        pairs, firsts = np.unique(self.task * kinds + self.origin, return_index=True)
        found: list[dict[str, str]] = [dict.fromkeys(CONTENT, "") for _ in self._task_numbers]
        origins, names = list(self._origin_numbers), self.names
        for index in np.argsort(firsts):
            task, number = divmod(int(pairs[index]), kinds)
            known = found[task]
            for name, new in zip(CONTENT, origins[number], strict=False):
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

    def _joined(self) -> tuple[NDArray[Any], ...]:
        """Also of no row."""
        return tuple(np.concatenate(values) for values in zip(*self._values, strict=True))

    def _key(self, index: int) -> tuple[str, int, int]:
        return (
            self.names[int(self.task[index])],
            int(self.repetition[index]),
            int(self.attempt[index]),
        )


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
