"""Exact runs and wrong-band rate of a stopping rule on a pool of pass rates, beside fixed-k probing.

No simulation: the probability of every (passed, clean) is carried forward for each pass rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from envfarm_numbers import jeffreys
from envfarm_numbers.probing import StoppingRule

GRID = 250
FIXED_LIMIT = 250
"""The longest fixed probe that is looked at."""


@dataclass(frozen=True)
class Pool:
    """A distribution of pass rates as points with weights that sum to 1."""

    name: str
    rates: NDArray[np.float64]
    weights: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Efficiency:
    """A rule on a pool, and the shortest fixed probe that is wrong no more often."""

    pool: str
    runs: float
    wrong_band: float
    fixed_k: int
    fixed_wrong_band: float

    @property
    def fraction(self) -> float:
        return self.runs / self.fixed_k


def pools() -> list[Pool]:
    """Uniform; U-shaped, Beta(1/2, 1/2); spiked, 30 % each at exactly 0 and 1, the rest uniform."""
    rates = (np.arange(GRID) + 0.5) / GRID
    even = np.full(GRID, 1 / GRID)
    u_shaped = np.diff(special.betainc(0.5, 0.5, np.arange(GRID + 1) / GRID))
    return [
        Pool("uniform", rates, even),
        Pool("u_shaped", rates, u_shaped),
        Pool(
            "spiked",
            np.concatenate([[0.0], rates, [1.0]]),
            np.concatenate([[0.3], 0.4 * even, [0.3]]),
        ),
    ]


def efficiency(rule: StoppingRule, pool: Pool) -> Efficiency:
    """ValueError when no fixed probe up to FIXED_LIMIT is as accurate."""
    runs, wrong = _follow(rule.should_continue, rule.cap, pool)
    for k in range(rule.minimum, FIXED_LIMIT + 1):
        fixed = fixed_wrong_band(k, pool)
        if fixed <= wrong + 1e-12:
            return Efficiency(pool.name, runs, wrong, k, fixed)
    raise ValueError(f"{pool.name}: no fixed probe of {FIXED_LIMIT} runs is as accurate")


def fixed_wrong_band(k: int, pool: Pool) -> float:
    """Share of tasks whose band after exactly k runs is not the one of their pass rate."""
    named = jeffreys.bands(np.arange(k + 1), k)
    c, rates = np.arange(k + 1)[None, :], pool.rates[:, None]
    ways = special.binom(k, c) * rates**c * (1 - rates) ** (k - c)
    right = (ways * (named[None, :] == true_bands(pool.rates)[:, None])).sum(axis=1)
    return float(pool.weights @ (1 - right))


def true_bands(rates: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index into BANDS of the band that holds each rate; an edge belongs to the easier one."""
    found = np.searchsorted(np.array(jeffreys.EDGES), rates, side="right") - 1
    return np.clip(found, 0, len(jeffreys.BANDS) - 1)


def _follow(goes_on: Callable[[int, int], bool], cap: int, pool: Pool) -> tuple[float, float]:
    """(mean runs, wrong-band rate)."""
    goes_on = cache(goes_on)
    truth, rates = true_bands(pool.rates), pool.rates[:, None]
    alive = np.zeros((len(pool.rates), cap + 2))
    alive[:, 0] = pool.weights
    runs = wrong = 0.0
    for clean in range(cap + 1):
        named = jeffreys.bands(np.arange(clean + 1), clean)
        stops = np.array([not goes_on(passed, clean) for passed in range(clean + 1)])
        ending = alive[:, : clean + 1] * stops
        runs += clean * float(ending.sum())
        wrong += float((ending * (named[None, :] != truth[:, None])).sum())
        alive[:, : clean + 1] -= ending
        after = alive * (1 - rates)
        after[:, 1:] += alive[:, :-1] * rates
        alive = after
    return runs, wrong
