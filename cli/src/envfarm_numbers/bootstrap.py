"""Intervals that respect tasks: whole tasks are drawn anew, never single attempts.

Expanded percentile interval: the tail is widened so that few tasks give a t interval's width
(Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section 4.3). Below MANY_TASKS, and
where all tasks have the same value, two made-up tasks are added, one at each end of what is possible,
as Agresti and Coull did for a proportion (1998): without them rare events are missed and the interval
holds the truth too rarely. Below LEAST_TASKS no interval is given.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

RESAMPLES = 10_000
SEED = 20260302
LEVEL = 0.95
MANY_TASKS = 40
"""From here on an interval is not corrected for few tasks."""
LEAST_TASKS = 10
"""Below this the intervals cover too rarely, so there is none."""
_CHUNK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of a 95 % interval, or None with the reason in `method`."""

    low: float | None
    high: float | None
    method: str


def resampled_means(
    values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED
) -> NDArray[np.float64]:
    """Means of `values` [T, M] over tasks drawn with replacement: [resamples, M]. Same seed, same
    tasks drawn, so that columns and calls are comparable."""
    tasks = len(values)
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK_CELLS // tasks)
    found = []
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = random.integers(0, tasks, size=(rows, tasks), dtype=np.int32)
        drawn += (np.arange(rows, dtype=np.int32) * tasks)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * tasks).reshape(rows, tasks)
        found.append(weights.astype(np.float64) @ values / tasks)
    return np.concatenate(found)


def task_intervals(
    values: NDArray[np.float64],
    *,
    ends: tuple[float, float] = (0.0, 1.0),
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> list[Interval]:
    """One interval for the mean of each column of `values` [T, M]; `ends` are the smallest and the
    largest value that a task can have."""
    tasks, columns = values.shape
    if tasks < LEAST_TASKS:
        method = f"none: {tasks} tasks, and fewer than {LEAST_TASKS} give no trustworthy interval"
        return [Interval(None, None, method)] * columns
    method = f"95 % task-clustered bootstrap, expanded percentile, {resamples:,} resamples"
    constant = values.min(axis=0) == values.max(axis=0)
    corrected = np.ones(columns, bool) if tasks < MANY_TASKS else constant
    low, high = np.empty(columns), np.empty(columns)
    for chosen, extra in ((~corrected, ()), (corrected, ends)):
        if not chosen.any():
            continue
        added = np.array(extra).reshape(-1, 1) * np.ones((1, int(chosen.sum())))
        sample = np.concatenate([values[:, chosen], added])
        means = resampled_means(sample, resamples=resamples, seed=seed)
        tail = expanded_tail(len(sample))
        low[chosen], high[chosen] = np.quantile(means, [tail, 1 - tail], axis=0)
    remark = f"; corrected for {tasks} tasks by one more at {ends[0]:g} and one at {ends[1]:g}"
    return [
        Interval(float(a), float(b), method + (remark if fixed else ""))
        for a, b, fixed in zip(low, high, corrected, strict=True)
    ]


def expanded_tail(tasks: int, level: float = LEVEL) -> float:
    """Normal tail beyond sqrt(T/(T-1)) · t quantile: below (1 - level)/2, and equal to it at the limit."""
    t = special.stdtrit(tasks - 1, (1 - level) / 2)
    return float(special.ndtr(np.sqrt(tasks / (tasks - 1)) * t))
