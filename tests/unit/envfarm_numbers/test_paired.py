import numpy as np
import pytest
from envfarm.errors import ConfigError
from scipy import stats

from envfarm_numbers.counts import TaskCounts
from envfarm_numbers.paired import compare, sign_flip


def tasks(*pairs: tuple[int, int]) -> list[TaskCounts]:
    return [TaskCounts(f"d/{i}", passed=k, clean=n) for i, (k, n) in enumerate(pairs)]


def test_the_average_rises_while_a_task_is_lost():
    found = compare(tasks((2, 4), (1, 4)), tasks((4, 4), (0, 4)), resamples=10, permutations=99)
    by_name = {d.name: d for d in found.differences}
    assert (by_name["pass@1"].a, by_name["pass@1"].b) == (0.375, 0.5)
    assert by_name["ever passed"].value == -0.5
    assert by_name["observed all"].value == 0.5
    assert (found.gained_all, found.lost_ever) == (["d/0"], ["d/1"])
    assert (found.gained_ever, found.lost_all) == ([], [])
    assert by_name["pass@1"].low is None, "two tasks give no interval"


def test_the_published_campaigns_differ_by_69_always_and_7_ever():
    a = [(20, 20)] * 38 + [(9, 20)] * 415 + [(0, 20)] * 54
    b = [(20, 20)] * 107 + [(10, 20)] * 339 + [(0, 20)] * 61
    found = compare(tasks(*a), tasks(*b), resamples=500, permutations=99)
    by_name = {d.name: d for d in found.differences}
    assert by_name["observed all"].value * 507 == pytest.approx(69)
    assert by_name["ever passed"].value * 507 == pytest.approx(-7)
    assert by_name["ever passed"].p_value == pytest.approx(2 * 0.5**7)


def test_equal_campaigns_differ_by_nothing():
    same = tasks(*[(i % 5, 4) for i in range(40)])
    found = compare(same, same, resamples=100, permutations=99)
    for difference in found.differences:
        assert difference.value == 0
        assert difference.low is not None and difference.high is not None
        assert -0.1 < difference.low < 0 < difference.high < 0.1
        assert difference.p_value == 1.0


def test_pairing_is_tighter_than_comparing_two_intervals():
    a = tasks(*[(i % 9, 8) for i in range(60)])
    b = tasks(*[(min(8, i % 9 + 1), 8) for i in range(60)])
    gain = compare(a, b, permutations=999).differences[0]
    assert gain.low is not None and gain.low > 0.08
    assert gain.p_value <= 0.002


def test_the_permutation_test_agrees_with_all_sign_flips():
    change = np.array([0.5, 0.25, -0.25, 0.75, 0.5, 0.0, 0.25, 0.5])
    exact = stats.permutation_test(
        (change,), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    found = sign_flip(change[:, None], permutations=40_000)
    assert found[0] == pytest.approx(exact, abs=0.01)


def test_other_tasks_cannot_be_paired():
    with pytest.raises(ConfigError):
        compare(tasks((1, 2)), [TaskCounts("d/other", passed=1, clean=2)])
    with pytest.raises(ConfigError):
        compare(tasks((1, 2)), tasks((0, 0)))


def test_counts_of_tasks_are_tested_exactly():
    a = tasks(*[(4, 4)] * 3, *[(0, 4)] * 9)
    b = tasks(*[(3, 4)] * 3, *[(4, 4)] * 9)
    by_name = {d.name: d for d in compare(a, b, resamples=10, permutations=9).differences}
    assert by_name["observed all"].p_value == pytest.approx(stats.binomtest(9, 12).pvalue)
    assert by_name["ever passed"].p_value == pytest.approx(stats.binomtest(9, 9).pvalue)
