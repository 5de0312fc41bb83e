"""Two campaigns on the same tasks: every difference is B minus A, task by task.

The interval draws tasks; the test swaps A and B within tasks. Both respect that attempts of one
task belong together.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from envfarm.errors import ConfigError
from numpy.typing import NDArray
from scipy import special

from envfarm_numbers.bootstrap import RESAMPLES, SEED, task_intervals
from envfarm_numbers.counts import TaskCounts, arrays
from envfarm_numbers.estimators import pass_at, pass_hat

_CHUNK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """B minus A of one figure, over the tasks that both have."""

    name: str
    a: float
    b: float
    value: float
    low: float | None
    high: float | None
    p_value: float
    """Two-sided; the smallest possible is 1 / (permutations + 1)."""
    estimator: str
    interval: str
    test: str
    tasks: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """All differences, and the tasks whose count figures changed."""

    tasks: int
    repetitions: int
    differences: list[Difference]
    """pass@1, pass@k, pass^k, observed k/k, ever passed."""
    gained_ever: list[str]
    lost_ever: list[str]
    gained_all: list[str]
    lost_all: list[str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    a: Sequence[TaskCounts],
    b: Sequence[TaskCounts],
    *,
    resamples: int = RESAMPLES,
    permutations: int = RESAMPLES,
    seed: int = SEED,
) -> Paired:
    """`a` and `b` hold the same tasks in the same order. ConfigError when they do not, or when one
    has no clean attempt. k is the smallest number of clean attempts on either side."""
    names = [task.task_id for task in a]
    if not names or names != [task.task_id for task in b]:
        raise ConfigError("the two campaigns have no list of tasks in common")
    (passed_a, clean_a), (passed_b, clean_b) = arrays(a), arrays(b)
    k = int(min(clean_a.min(), clean_b.min()))
    if k == 0:
        raise ConfigError("a task without a clean attempt cannot be paired")
    titles, columns_a = _columns(passed_a, clean_a, k)
    _, columns_b = _columns(passed_b, clean_b, k)
    change = columns_b - columns_a
    intervals = task_intervals(change, ends=(-1.0, 1.0), resamples=resamples, seed=seed)
    p_values = sign_flip(change, permutations=permutations, seed=seed)
    test = f"sign flips of task differences, two-sided, {permutations:,} permutations"
    differences = []
    for i, (name, estimator) in enumerate(titles):
        is_count = i >= 3
        p = _mcnemar(change[:, i]) if is_count else float(p_values[i])
        differences.append(
            Difference(
                name=name,
                a=float(columns_a[:, i].mean()),
                b=float(columns_b[:, i].mean()),
                value=float(change[:, i].mean()),
                low=intervals[i].low,
                high=intervals[i].high,
                p_value=p,
                estimator=estimator,
                interval=intervals[i].method,
                test="McNemar, exact, two-sided" if is_count else test,
                tasks=len(names),
            )
        )

    def changed(column: int, sign: int) -> list[str]:
        return [names[i] for i in np.flatnonzero(change[:, column] * sign > 0)]

    return Paired(
        tasks=len(names),
        repetitions=k,
        differences=differences,
        gained_all=changed(3, 1),
        lost_all=changed(3, -1),
        gained_ever=changed(4, 1),
        lost_ever=changed(4, -1),
    )


def sign_flip(
    change: NDArray[np.float64], *, permutations: int = RESAMPLES, seed: int = SEED
) -> NDArray[np.float64]:
    """Two-sided p-value of a zero mean for each column of `change` [T, M], by random sign flips.

    (1 + permutations at least as extreme) / (1 + permutations); Phipson and Smyth, 2010.
    """
    observed = np.abs(change.sum(axis=0)) - 1e-9
    random = np.random.default_rng(seed)
    extreme = np.zeros(change.shape[1], dtype=np.int64)
    step = max(1, _CHUNK_CELLS // len(change))
    for start in range(0, permutations, step):
        rows = min(step, permutations - start)
        signs = random.integers(0, 2, size=(rows, len(change)), dtype=np.int8) * 2.0 - 1.0
        extreme += (np.abs(signs @ change) >= observed).sum(axis=0)
    return (1 + extreme) / (1 + permutations)


def _columns(
    passed: NDArray[np.int64], clean: NDArray[np.int64], k: int
) -> tuple[list[tuple[str, str]], NDArray[np.float64]]:
    """(names with estimators, values [T, 5])."""
    titles = [
        ("pass@1", "mean over tasks of passed / clean attempts"),
        (f"pass@{k}", f"mean over tasks of 1 - C(n-c,{k})/C(n,{k}), unbiased"),
        (f"pass^{k}", f"mean over tasks of C(c,{k})/C(n,{k}), unbiased"),
        ("observed all", "share of tasks whose clean attempts all passed"),
        ("ever passed", "share of tasks with at least one pass"),
    ]
    values = [
        passed / clean,
        pass_at(passed, clean, k),
        pass_hat(passed, clean, k),
        (passed == clean).astype(float),
        (passed > 0).astype(float),
    ]
    return titles, np.stack(values, axis=1)


def _mcnemar(change: NDArray[np.float64]) -> float:
    """Two-sided sign test: gains and losses are equally likely when nothing changed."""
    gained, lost = int((change > 0).sum()), int((change < 0).sum())
    return min(1.0, 2 * float(special.bdtr(min(gained, lost), gained + lost, 0.5)))
