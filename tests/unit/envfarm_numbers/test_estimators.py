"""Published figures and cases worked by hand."""

from math import comb

import numpy as np
import pytest
from envfarm.errors import ConfigError
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from envfarm_numbers.counts import TaskCounts
from envfarm_numbers.estimators import pass_at, pass_hat, results, share_of_tasks


def tasks(*pairs: tuple[int, int]) -> list[TaskCounts]:
    return [TaskCounts(f"d/{i}", passed=k, clean=n) for i, (k, n) in enumerate(pairs)]


def published(always: int, never: int, passes: int) -> list[TaskCounts]:
    """507 tasks × 20 with these counts of tasks and of passed attempts."""
    between = 507 - always - never
    left = passes - 20 * always
    low, more = divmod(left, between)
    return tasks(
        *[(20, 20)] * always,
        *[(0, 20)] * never,
        *[(low + (i < more), 20) for i in range(between)],
    )


@pytest.mark.parametrize(
    "always, ever, passes, shown",
    [(38, 453, 5242, ("7.50", "89.35", "51.70")), (107, 446, 6163, ("21.10", "87.97", "60.78"))],
)
def test_the_published_counts_of_507_tasks_by_20(always, ever, passes, shown):
    found = results(published(always, 507 - ever, passes), resamples=200)
    assert (found.tasks, found.repetitions) == (507, 20)
    assert f"{found.observed_all.value:.2%}" == f"{shown[0]}%"
    assert f"{found.ever_passed.value:.2%}" == f"{shown[1]}%"
    assert f"{found.pass_at_1.value:.2%}" == f"{shown[2]}%"
    assert (found.pass_at_1.numerator, found.pass_at_1.denominator) == (passes, 10140)
    assert (found.observed_all.numerator, found.observed_all.denominator) == (always, 507)
    assert (found.ever_passed.numerator, found.ever_passed.denominator) == (ever, 507)
    # With k = n, "unbiased" and "observed" are the same number.
    assert found.pass_hat_k.value == pytest.approx(always / 507)
    assert found.pass_at_k.value == pytest.approx(ever / 507)


def test_better_on_average_and_fewer_tasks_ever():
    before = results(tasks((2, 4), (1, 4)), resamples=10)
    after = results(tasks((4, 4), (0, 4)), resamples=10)
    assert (before.pass_at_1.value, after.pass_at_1.value) == (0.375, 0.5)
    assert (before.ever_passed.numerator, after.ever_passed.numerator) == (2, 1)
    assert (before.observed_all.numerator, after.observed_all.numerator) == (0, 1)


def test_two_of_four_by_hand():
    assert pass_at(2, 4, 2) == pytest.approx(5 / 6)
    assert pass_hat(2, 4, 2) == pytest.approx(1 / 6)
    assert [float(pass_hat(2, 4, j)) for j in (1, 3, 4)] == [0.5, 0.0, 0.0]


@given(st.data())
def test_both_estimators_are_ratios_of_binomials(data):
    n = data.draw(st.integers(1, 60))
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    assert pass_at(c, n, k) == pytest.approx(1 - comb(n - c, k) / comb(n, k))
    assert pass_hat(c, n, k) == pytest.approx(comb(c, k) / comb(n, k))


@given(st.floats(0.01, 0.99), st.integers(2, 12), st.data())
def test_both_estimators_are_unbiased(p, n, data):
    k = data.draw(st.integers(1, n))
    c = np.arange(n + 1)
    chance = np.array([comb(n, i) * p**i * (1 - p) ** (n - i) for i in c])
    assert chance @ pass_hat(c, n, k) == pytest.approx(p**k)
    assert chance @ pass_at(c, n, k) == pytest.approx(1 - (1 - p) ** k)


def test_more_asked_than_there_are_attempts_is_an_error():
    with pytest.raises(ValueError, match="not 5"):
        pass_hat([4, 1], [4, 9], 5)


def test_the_curve_falls_from_pass_at_1_to_observed_all():
    found = results(tasks(*[(i % 9, 8) for i in range(60)]), resamples=200)
    values = [point.value for point in found.repeatability]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(found.pass_at_1.value)
    assert values[-1] == pytest.approx(found.observed_all.value)
    rising = [point.value for point in found.coverage]
    assert rising == sorted(rising) and rising[0] == values[0]
    assert rising[-1] == pytest.approx(found.ever_passed.value)
    assert [p.name for p in found.coverage] == [f"pass@{j}" for j in range(1, 9)]
    assert [p.name for p in found.repeatability] == [f"pass^{j}" for j in range(1, 9)]


def test_a_task_without_clean_attempt_stops_the_headline():
    with pytest.raises(ConfigError, match="1 of 2 tasks have no clean attempt, such as d/1"):
        results(tasks((1, 2), (0, 0)))


def test_unequal_attempts_are_said_in_the_estimator():
    found = results(tasks((1, 2), (3, 4)), resamples=10)
    assert found.repetitions == 2
    assert found.pass_at_1.value == 0.625
    assert "2 to 4 clean attempts a task" in found.pass_at_1.estimator
    assert (found.pass_at_1.numerator, found.pass_at_1.denominator) == (1.25, 2)


def test_few_tasks_have_no_interval_and_forty_have_one_without_remark():
    few = results(tasks(*[(1, 2)] * 5, *[(2, 2)] * 4), resamples=100).pass_at_1
    some = results(tasks(*[(1, 2)] * 20, *[(2, 2)] * 19), resamples=100).pass_at_1
    many = results(tasks(*[(1, 2)] * 20, *[(2, 2)] * 20), resamples=100).pass_at_1
    assert (few.low, few.high) == (None, None) and few.interval.startswith("none: 9 tasks")
    assert some.low is not None and "corrected for 39 tasks" in some.interval
    assert many.low is not None and "corrected" not in many.interval


def test_a_figure_that_is_the_same_for_all_tasks_still_has_a_width():
    none = results(tasks(*[(0, 8)] * 60), resamples=2_000).pass_hat_k
    assert none.low == 0.0 and none.high is not None and 0.02 < none.high < 0.08
    assert "corrected" in none.interval


def test_a_count_of_tasks_carries_its_jeffreys_interval():
    found = share_of_tasks("x", "y", 107, 507)
    assert (found.low, found.high) == pytest.approx(stats.beta(107.5, 400.5).ppf([0.025, 0.975]))
    assert share_of_tasks("x", "y", 0, 60).low == 0.0
    assert share_of_tasks("x", "y", 60, 60).high == 1.0
