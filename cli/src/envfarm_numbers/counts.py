"""Passed and clean attempts of each task: all that most estimators need.

A clean attempt has a reward. One without is ours (I1): it is counted as excused, never as failed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from envfarm.errors import ConfigError
from numpy.typing import NDArray

from envfarm_numbers.rows import (
    Campaign,
    LineReader,
    check_reward,
    duplicate,
    files_of,
    second_reward,
)

IDENTITY = ("policy_hash", "renderer_hash", "sampling_hash", "interface")
"""Columns that must not change within one campaign."""
_WANTED = ("task_id", "task_hash", "world_hash", "checks_hash", "repetition", "attempt", "reward")
_ATTEMPT_BITS = 20
_LINE_BITS = 40
_LINE_MASK = (1 << _LINE_BITS) - 1


@dataclass(slots=True)
class TaskCounts:
    """One task of one campaign."""

    task_id: str
    task_hash: str = ""
    """Empty until an attempt opened its episode."""
    world_hash: str = ""
    checks_hash: str = ""
    passed: int = 0
    clean: int = 0
    excused: int = 0
    """Attempts without reward."""

    @property
    def domain(self) -> str:
        return self.task_id.partition("/")[0]


@dataclass(slots=True)
class CampaignCounts:
    """Counts by task id, and what the campaign was made with."""

    tasks: dict[str, TaskCounts]
    rows: int
    identity: dict[str, set[str]] = field(default_factory=dict)
    """Values seen in each column of IDENTITY; attempts that never reached an engine leave none."""


def read_counts(paths: Path | Iterable[Path]) -> CampaignCounts:
    """Counts without keeping the rows; the refusals are those of `rows.read_campaign`, but for keys
    that counting does not need."""
    given = [paths] if isinstance(paths, Path) else list(paths)
    reader = LineReader((*_WANTED, *IDENTITY))
    tasks: dict[str, TaskCounts] = {}
    places: dict[str, dict[int, int]] = {}
    identities: set[tuple[str, ...]] = set()
    policy = renderer = sampling = interface = None
    files = [file for path in given for file in files_of(path)]
    rows = 0

    def place(where: int) -> str:
        return f"{files[where >> _LINE_BITS]}:{where & _LINE_MASK}"

    for index, path in enumerate(files):
        for number, row in reader.read(path):
            rows += 1
            task_id, where = row.task_id, index << _LINE_BITS | number
            counts = tasks.get(task_id)
            if counts is None:
                counts = tasks[task_id] = TaskCounts(task_id)
                places[task_id] = {}
            seen, repetition = places[task_id], row.repetition << _ATTEMPT_BITS
            first = seen.setdefault(repetition | row.attempt, where)
            if first != where:
                key = (task_id, row.repetition, row.attempt)
                raise duplicate(place(where), place(first), key)
            if row.reward is not None:
                # The attempt number 0 never occurs, so it marks the repetition as rewarded.
                first = seen.setdefault(repetition, where)
                if first != where:
                    key = (task_id, row.repetition, row.attempt)
                    raise second_reward(place(where), place(first), key)
                if row.reward not in (0.0, 1.0):
                    check_reward(place(where), row.reward)
            if (
                row.policy_hash != policy
                or row.sampling_hash != sampling
                or row.renderer_hash != renderer
                or row.interface != interface
            ):
                policy, renderer = row.policy_hash, row.renderer_hash
                sampling, interface = row.sampling_hash, row.interface
                identities.add((policy, renderer, sampling, interface))
            _add(counts, row, path, number)
    if not rows:
        raise ConfigError(f"{files[0]}: no row in it yet")
    identity = {
        name: {values[i] for values in identities} - {""} for i, name in enumerate(IDENTITY)
    }
    return CampaignCounts(dict(sorted(tasks.items())), rows, identity)


def count(campaign: Campaign) -> CampaignCounts:
    """The same from rows in memory."""
    tasks: dict[str, TaskCounts] = {}
    identity: dict[str, set[str]] = {name: set() for name in IDENTITY}
    for row in campaign.rows:
        counts = tasks.setdefault(row.task_id, TaskCounts(row.task_id))
        _add(counts, row, campaign.places[row.task_id, row.repetition, row.attempt], None)
        for name, values in identity.items():
            values.add(getattr(row, name))
    for values in identity.values():
        values.discard("")
    return CampaignCounts(dict(sorted(tasks.items())), len(campaign.rows), identity)


def arrays(tasks: Sequence[TaskCounts]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(passed, clean), one element a task."""
    return (
        np.array([task.passed for task in tasks], dtype=np.int64),
        np.array([task.clean for task in tasks], dtype=np.int64),
    )


def _add(counts: TaskCounts, row: Any, where: Path | str, number: int | None) -> None:
    if row.reward is None:
        counts.excused += 1
    else:
        counts.clean += 1
        counts.passed += row.reward == 1.0
    if (
        row.task_hash == counts.task_hash
        and row.world_hash == counts.world_hash
        and row.checks_hash == counts.checks_hash
    ):
        return
    for name in ("task_hash", "world_hash", "checks_hash"):
        new, old = getattr(row, name), getattr(counts, name)
        if new and old and new != old:
            place = where if number is None else f"{where}:{number}"
            raise ConfigError(
                f"{place}: {name} of {row.task_id} is {new[:12]}, and {old[:12]} in earlier rows",
                hint="the task changed while the campaign ran; run it again on the new content",
            )
        if new:
            setattr(counts, name, new)
