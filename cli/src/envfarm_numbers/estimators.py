"""What a campaign of T tasks × k repetitions says. Formulas and denominators: docs/numbers.md.

Only clean attempts enter; an attempt without reward was run again and is never a failure. Each
figure carries the name of its estimator, its interval and its denominator.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from envfarm.errors import ConfigError
from numpy.typing import ArrayLike, NDArray

from envfarm_numbers import jeffreys
from envfarm_numbers.bootstrap import RESAMPLES, SEED, Interval, task_intervals
from envfarm_numbers.counts import TaskCounts, arrays

JEFFREYS = "95 % Jeffreys on the number of tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One figure as it is shown: nothing about it has to be looked up elsewhere."""

    name: str
    value: float
    low: float | None
    high: float | None
    estimator: str
    interval: str
    numerator: float
    denominator: int
    unit: str = "tasks"
    """What the denominator counts."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The headline figures of one campaign, or of a part of it."""

    tasks: int
    repetitions: int
    """Smallest number of clean attempts of a task; the k of the names."""
    pass_at_1: Estimate
    pass_at_k: Estimate
    pass_hat_k: Estimate
    observed_all: Estimate
    ever_passed: Estimate
    repeatability: list[Estimate]
    """pass^j for j = 1 … k."""
    coverage: list[Estimate]
    """pass@j for j = 1 … k."""

    def headline(self) -> list[Estimate]:
        return [
            self.pass_at_1,
            self.pass_at_k,
            self.pass_hat_k,
            self.observed_all,
            self.ever_passed,
        ]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def pass_at(passed: ArrayLike, clean: ArrayLike, k: int) -> NDArray[np.float64]:
    """Unbiased chance that one of k attempts passes: 1 - C(n-c, k) / C(n, k), by task.

    Chen et al., "Evaluating Large Language Models Trained on Code", 2021, equation 1.
    """
    c, n = np.asarray(passed), np.asarray(clean)
    return 1 - pass_hat(n - c, n, k)


def pass_hat(passed: ArrayLike, clean: ArrayLike, k: int) -> NDArray[np.float64]:
    """Unbiased chance that k of k attempts pass: C(c, k) / C(n, k), by task. ValueError when n < k.

    Yao et al., "tau-bench", 2024, section 4.
    """
    c, n = np.asarray(passed, dtype=float), np.asarray(clean, dtype=float)
    if k < 1 or np.any(n < k):
        raise ValueError(f"k is between 1 and the number of clean attempts, not {k}")
    found = np.ones(np.broadcast(c, n).shape)
    for i in range(k):
        found *= np.maximum(c - i, 0) / (n - i)
    return found


def share_of_tasks(name: str, estimator: str, true: int, tasks: int) -> Estimate:
    """A count of tasks over all tasks, with its Jeffreys interval."""
    low, high = jeffreys.interval(true, tasks)
    return Estimate(
        name=name,
        value=true / tasks,
        low=float(low),
        high=float(high),
        estimator=estimator,
        interval=JEFFREYS,
        numerator=true,
        denominator=tasks,
    )


def results(
    tasks: Sequence[TaskCounts], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Results:
    """All headline figures; ConfigError when a task has no clean attempt.

    k is the smallest number of clean attempts of any task. Observed k/k and ever passed look at all
    clean attempts of a task, so they mean what they say only where every task has k of them: the
    coverage gate sees to that.
    """
    if not tasks:
        raise ConfigError("there is no task to count")
    passed, clean = arrays(tasks)
    k = int(clean.min())
    if k == 0:
        none = [task.task_id for task in tasks if not task.clean]
        raise ConfigError(
            f"{len(none)} of {len(tasks)} tasks have no clean attempt, such as {none[0]}",
            hint="run the missing repetitions, or look at the bounds instead of a headline",
        )
    steps = range(1, k + 1)
    columns = np.stack(
        [how(passed, clean, j) for how in (pass_hat, pass_at) for j in steps], axis=1
    )
    intervals = task_intervals(columns, resamples=resamples, seed=seed)
    total = len(tasks)
    exactly = "" if int(clean.max()) == k else f"; {k} to {int(clean.max())} clean attempts a task"
    repeatability, coverage = (
        [
            _mean(
                f"pass{sign}{j}",
                f"mean over tasks of {formula.format(j)}, unbiased{exactly}",
                columns[:, first + j - 1],
                intervals[first + j - 1],
            )
            for j in steps
        ]
        for sign, formula, first in (
            ("^", "C(c,{0})/C(n,{0})", 0),
            ("@", "1 - C(n-c,{0})/C(n,{0})", k),
        )
    )
    return Results(
        tasks=total,
        repetitions=k,
        pass_at_1=_pass_at_1(passed, clean, intervals[0], exactly),
        pass_at_k=coverage[-1],
        pass_hat_k=repeatability[-1],
        observed_all=share_of_tasks(
            f"observed {k}/{k}",
            f"tasks whose clean attempts all passed, of all tasks{exactly}",
            int((passed == clean).sum()),
            total,
        ),
        ever_passed=share_of_tasks(
            "ever passed",
            f"tasks with at least one pass in {k} clean attempts, of all tasks{exactly}",
            int((passed > 0).sum()),
            total,
        ),
        repeatability=repeatability,
        coverage=coverage,
    )


def by_part(
    tasks: Sequence[TaskCounts], part: dict[str, str], *, resamples: int = RESAMPLES
) -> dict[str, Results]:
    """The same for each value of a tag, such as domain or workflow: `part` gives it by task id."""
    groups: dict[str, list[TaskCounts]] = {}
    for task in tasks:
        groups.setdefault(part.get(task.task_id, ""), []).append(task)
    return {name: results(groups[name], resamples=resamples) for name in sorted(groups)}


def _pass_at_1(
    passed: NDArray[np.int64], clean: NDArray[np.int64], interval: Interval, exactly: str
) -> Estimate:
    equal = not exactly
    return Estimate(
        name="pass@1",
        value=float(np.mean(passed / clean)),
        low=interval.low,
        high=interval.high,
        estimator="mean over tasks of passed / clean attempts" + exactly,
        interval=interval.method,
        # With equal n the mean over tasks is the share of all attempts.
        numerator=int(passed.sum()) if equal else float(np.sum(passed / clean)),
        denominator=int(clean.sum()) if equal else len(passed),
        unit="attempts" if equal else "tasks",
    )


def _mean(name: str, estimator: str, values: NDArray[np.float64], interval: Interval) -> Estimate:
    return Estimate(
        name=name,
        value=float(values.mean()),
        low=interval.low,
        high=interval.high,
        estimator=estimator,
        interval=interval.method,
        numerator=float(values.sum()),
        denominator=len(values),
    )
