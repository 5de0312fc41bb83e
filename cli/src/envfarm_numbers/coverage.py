"""The gate before any headline: are all planned attempts there, and what could the missing ones do?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from envfarm.errors import ConfigError

from envfarm_numbers.counts import TaskCounts, arrays
from envfarm_numbers.rows import Campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Planned keys (task, repetition) beside what has a reward."""

    tasks: int
    repetitions: int
    planned: int
    covered: int
    missing: list[tuple[str, int]]
    """(task id, repetition) without a reward, in order."""
    unplanned: list[tuple[str, int]]
    """Keys that nobody asked for: another suite's or another k."""
    changed: list[str]
    """Tasks whose content is not the suite's."""

    @property
    def complete(self) -> bool:
        return not self.missing and not self.unplanned and not self.changed

    def check(self) -> None:
        """ConfigError with numbers unless everything is there and nothing else."""
        if self.complete:
            return
        parts = []
        if self.missing:
            task, repetition = self.missing[0]
            parts.append(
                f"{len(self.missing)} of {self.planned} attempts have no reward, the first is "
                f"repetition {repetition} of {task}"
            )
        if self.unplanned:
            task, repetition = self.unplanned[0]
            parts.append(
                f"{len(self.unplanned)} were not planned, such as repetition {repetition} of {task}"
            )
        if self.changed:
            parts.append(f"{len(self.changed)} tasks have other content, such as {self.changed[0]}")
        raise ConfigError(
            "; ".join(parts),
            hint="run `envfarm eval` again to fill the gaps; only bounds are shown until then",
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "complete": self.complete}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A figure if every missing attempt had failed, and if it had passed."""

    name: str
    if_failed: float
    if_passed: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def coverage(
    campaign: Campaign, repetitions: int, tasks: Mapping[str, str] | None = None
) -> Coverage:
    """`tasks` is the suite, id → content hash; without it the tasks of the rows are taken."""
    suite = dict(tasks) if tasks else {row.task_id: "" for row in campaign.rows}
    planned = {(task, number) for task in suite for number in range(repetitions)}
    rewarded = {(row.task_id, row.repetition) for row in campaign.rows if row.reward is not None}
    changed = {
        row.task_id
        for row in campaign.rows
        if row.task_hash and suite.get(row.task_id) not in (None, "", row.task_hash)
    }
    return Coverage(
        tasks=len(suite),
        repetitions=repetitions,
        planned=len(planned),
        covered=len(planned & rewarded),
        missing=sorted(planned - rewarded),
        unplanned=sorted({(row.task_id, row.repetition) for row in campaign.rows} - planned),
        changed=sorted(changed),
    )


def repetitions_seen(campaign: Campaign) -> int:
    """The k that the rows themselves speak of: one more than the highest repetition."""
    return 1 + max(row.repetition for row in campaign.rows)


def completed(
    tasks: Mapping[str, TaskCounts], suite: Sequence[str], repetitions: int, *, passed: bool
) -> list[TaskCounts]:
    """Counts with every missing attempt filled in one way."""
    found = []
    for task_id in sorted(suite):
        task = tasks.get(task_id, TaskCounts(task_id))
        owed = max(0, repetitions - task.clean)
        found.append(
            replace(task, clean=task.clean + owed, passed=task.passed + (owed if passed else 0))
        )
    return found


def bounds(tasks: Mapping[str, TaskCounts], suite: Sequence[str], repetitions: int) -> list[Bounds]:
    """pass@1, observed k/k and ever passed, both ways: the truth of the finished campaign lies between.

    All three grow with every pass, so the two fillings are the extremes.
    """
    low, high = (
        _figures(completed(tasks, suite, repetitions, passed=way)) for way in (False, True)
    )
    names = ("pass@1", f"observed {repetitions}/{repetitions}", "ever passed")
    return [
        Bounds(name=name, if_failed=a, if_passed=b)
        for name, a, b in zip(names, low, high, strict=True)
    ]


def _figures(tasks: Sequence[TaskCounts]) -> tuple[float, float, float]:
    passed, clean = arrays(tasks)
    return (
        float((passed / clean).mean()),
        float((passed == clean).mean()),
        float((passed > 0).mean()),
    )
