"""What k passes in n clean attempts say about a task's pass rate: the Jeffreys posterior.

Beta(k + 1/2, n - k + 1/2), after the Jeffreys prior Beta(1/2, 1/2). Brown, Cai and DasGupta,
"Interval Estimation for a Binomial Proportion", 2001.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

EDGES = (0.0, 0.08, 0.40, 0.60, 0.90, 1.0)
BANDS = ("too_hard", "hard", "medium", "easy", "too_easy")
"""Difficulty by pass rate, between EDGES."""


def band_masses(passed: ArrayLike, clean: ArrayLike) -> NDArray[np.float64]:
    """Posterior probability of each band, on a last axis of length five; sums to 1."""
    a, b = _shape(passed, clean)
    edges = np.array(EDGES)
    return np.diff(special.betainc(a[..., None], b[..., None], edges), axis=-1)


def bands(passed: ArrayLike, clean: ArrayLike) -> NDArray[np.int64]:
    """Index into BANDS of the band of maximum mass; the harder one of equals."""
    return np.argmax(band_masses(passed, clean), axis=-1)


def band(passed: int, clean: int) -> str:
    """Name of the band of maximum mass."""
    return BANDS[int(bands(passed, clean))]


def interval(
    passed: ArrayLike, clean: ArrayLike, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(low, high), equal-tailed; low is 0 where nothing passed and high 1 where everything did."""
    a, b = _shape(passed, clean)
    tail = (1 - level) / 2
    low = np.where(np.asarray(passed) == 0, 0.0, special.betaincinv(a, b, tail))
    high = np.where(
        np.asarray(passed) == np.asarray(clean), 1.0, special.betaincinv(a, b, 1 - tail)
    )
    return low, high


def mean(passed: ArrayLike, clean: ArrayLike) -> NDArray[np.float64]:
    """(k + 1/2) / (n + 1)."""
    a, b = _shape(passed, clean)
    return a / (a + b)


def deviation(passed: ArrayLike, clean: ArrayLike) -> NDArray[np.float64]:
    """Standard deviation of the posterior."""
    a, b = _shape(passed, clean)
    return np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))


def probability_above(passed: ArrayLike, clean: ArrayLike, rate: float) -> NDArray[np.float64]:
    """Posterior probability that the pass rate is above `rate`."""
    a, b = _shape(passed, clean)
    return special.betaincc(a, b, rate)


def informative_probability(
    passed: ArrayLike, clean: ArrayLike, group_size: int = 8
) -> NDArray[np.float64]:
    """Posterior expectation that a group of G holds both rewards: 1 - E[p^G] - E[(1-p)^G]."""
    a, b = _shape(passed, clean)
    total = special.betaln(a, b)
    all_pass = np.exp(special.betaln(a + group_size, b) - total)
    none_pass = np.exp(special.betaln(a, b + group_size) - total)
    return 1 - all_pass - none_pass


def mixed_probability(rate: ArrayLike, group_size: int = 8) -> NDArray[np.float64]:
    """1 - p^G - (1-p)^G: the chance of an informative group at a known pass rate."""
    p = np.asarray(rate, dtype=float)
    return 1 - p**group_size - (1 - p) ** group_size


def predictive(passed: int, clean: int, more: int) -> NDArray[np.float64]:
    """Probability of 0 … `more` passes in that many further attempts: the beta-binomial."""
    a, b = passed + 0.5, clean - passed + 0.5
    j = np.arange(more + 1)
    ways = -special.betaln(more - j + 1, j + 1) - np.log(more + 1)
    return np.exp(ways + special.betaln(a + j, b + more - j) - special.betaln(a, b))


def _shape(passed: ArrayLike, clean: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    k, n = np.asarray(passed, dtype=float), np.asarray(clean, dtype=float)
    if np.any(k < 0) or np.any(k > n):
        raise ValueError("passed attempts are between 0 and the clean ones")
    return k + 0.5, n - k + 0.5
