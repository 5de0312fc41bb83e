"""Passed and clean attempts of each task: all that most estimators need.

A clean attempt has a reward. One without is ours (I1): it is counted as excused, never as failed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from envfarm_numbers.columns import IDENTITY, Columns
from envfarm_numbers.pieces import read_columns
from envfarm_numbers.rows import Campaign, files_of


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
    return _counted(read_columns([file for path in given for file in files_of(path)]))


def count(campaign: Campaign) -> CampaignCounts:
    """The same from rows in memory."""

    def place(index: int) -> str:
        row = campaign.rows[index]
        return campaign.places[row.task_id, row.repetition, row.attempt]

    columns = Columns(place)
    columns.add(campaign.rows)
    columns.close()
    return _counted(columns)


def arrays(tasks: Sequence[TaskCounts]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(passed, clean), one element a task."""
    return (
        np.array([task.passed for task in tasks], dtype=np.int64),
        np.array([task.clean for task in tasks], dtype=np.int64),
    )


def _counted(columns: Columns) -> CampaignCounts:
    found = zip(
        columns.names,
        columns.content_of_tasks(),
        columns.per_task(columns.reward == 1.0),
        columns.per_task(~np.isnan(columns.reward)),
        columns.per_task(np.isnan(columns.reward)),
        strict=True,
    )
    tasks = {
        name: TaskCounts(name, **content, passed=passed, clean=clean, excused=excused)
        for name, content, passed, clean, excused in sorted(found, key=lambda one: one[0])
    }
    identity = {
        name: {values[i] for values in columns.identities} - {""} for i, name in enumerate(IDENTITY)
    }
    return CampaignCounts(tasks, len(columns.task), identity)
