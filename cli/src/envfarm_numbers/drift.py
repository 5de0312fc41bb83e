"""How far training results have left what a selection believed: the age of a probe.

Given the posterior of the probe, m later attempts have a beta-binomial number of passes. A task has
drifted where that number lies in the outer 5 %.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from envfarm_numbers import jeffreys
from envfarm_numbers.counts import TaskCounts

SURPRISE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDrift:
    """One task: what was probed, what training saw."""

    task_id: str
    probed: tuple[int, int]
    """(passed, clean)."""
    trained: tuple[int, int]
    band: str
    new_band: str
    """From the training results alone."""
    p_value: float
    """Two-sided, of a training result this far out under the probe's posterior."""
    change: float
    """Pass rate in training minus posterior mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The whole selection."""

    tasks: list[TaskDrift]
    """Strongest drift first."""
    unseen: int
    """Selected tasks without a clean attempt in training."""
    drifted: int
    """Tasks with a p-value below 0.05; one in twenty is chance."""
    left_band: int
    """Tasks whose training results lie in another band."""
    mean_change: float
    informative_then: float
    """Expected share of informative groups as probed, over the tasks seen."""
    informative_now: float
    """The same from training results."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def drift(
    selected: Sequence[dict[str, Any]], trained: dict[str, TaskCounts], group_size: int
) -> Drift:
    """`selected` are lines of tasks.jsonl. ValueError when no selected task was trained on."""
    seen = [
        (line, trained[line["task_id"]])
        for line in selected
        if line["task_id"] in trained and trained[line["task_id"]].clean
    ]
    if not seen:
        raise ValueError("none of the selected tasks has a clean attempt in these rows")
    tasks = [_task(line, now) for line, now in seen]
    probed = np.array([task.probed for task in tasks])
    now = np.array([task.trained for task in tasks])
    return Drift(
        tasks=sorted(tasks, key=lambda task: (task.p_value, task.task_id)),
        unseen=len(selected) - len(seen),
        drifted=sum(task.p_value < SURPRISE for task in tasks),
        left_band=sum(task.band != task.new_band for task in tasks),
        mean_change=float(np.mean([task.change for task in tasks])),
        informative_then=_informative(probed, group_size),
        informative_now=_informative(now, group_size),
    )


def _task(line: dict[str, Any], now: TaskCounts) -> TaskDrift:
    passed, clean = int(line["passed"]), int(line["clean"])
    chances = jeffreys.predictive(passed, clean, now.clean)
    below, above = chances[: now.passed + 1].sum(), chances[now.passed :].sum()
    return TaskDrift(
        task_id=line["task_id"],
        probed=(passed, clean),
        trained=(now.passed, now.clean),
        band=line["band"],
        new_band=jeffreys.band(now.passed, now.clean),
        p_value=float(min(1.0, 2 * min(below, above))),
        change=now.passed / now.clean - float(jeffreys.mean(passed, clean)),
    )


def _informative(counts: np.ndarray, group_size: int) -> float:
    return float(np.mean(jeffreys.informative_probability(counts[:, 0], counts[:, 1], group_size)))
