import numpy as np
import pytest
from scipy import integrate, stats

from envfarm_numbers import jeffreys


def test_chance_of_a_mixed_group_of_eight():
    assert f"{jeffreys.mixed_probability(0.5):.2%}" == "99.22%"
    assert f"{jeffreys.mixed_probability(0.01):.2%}" == "7.73%"
    assert f"{jeffreys.mixed_probability(0.99):.2%}" == "7.73%"


def test_width_of_the_posterior_at_one_half():
    assert f"{jeffreys.deviation(2, 4):.3f}" == "0.204"
    assert f"{jeffreys.deviation(20, 40):.3f}" == "0.077"


@pytest.mark.parametrize(
    "passed, clean, band, mass",
    [(0, 3, 0, 0.54), (0, 4, 0, 0.60), (1, 4, 1, 0.61), (3, 3, 4, 0.59), (4, 4, 4, 0.66)],
)
def test_band_of_maximum_mass_after_few_runs(passed, clean, band, mass):
    masses = jeffreys.band_masses(passed, clean)
    assert jeffreys.band(passed, clean) == jeffreys.BANDS[band]
    assert masses[band] == pytest.approx(mass, abs=0.005)
    assert masses.sum() == pytest.approx(1)


def test_arrays_and_numbers_give_the_same():
    many = jeffreys.band_masses([0, 3], [4, 5])
    assert many[1] == pytest.approx(jeffreys.band_masses(3, 5))


def test_informative_share_is_the_posterior_mean_of_the_mixed_probability():
    beta = stats.beta(3.5, 2.5)
    expected, _ = integrate.quad(lambda p: jeffreys.mixed_probability(p) * beta.pdf(p), 0, 1)
    assert jeffreys.informative_probability(3, 5) == pytest.approx(expected)


def test_predictive_is_the_beta_binomial():
    expected = stats.betabinom(6, 2.5, 1.5).pmf(np.arange(7))
    assert jeffreys.predictive(2, 3, 6) == pytest.approx(expected)
    assert jeffreys.predictive(0, 0, 0) == pytest.approx([1.0])


def test_more_passes_than_runs_are_an_error():
    with pytest.raises(ValueError):
        jeffreys.band_masses(3, 2)


def test_interval_is_the_beta_quantile_with_closed_ends():
    low, high = jeffreys.interval(5, 10)
    assert (low, high) == pytest.approx(stats.beta(5.5, 5.5).ppf([0.025, 0.975]))
    assert jeffreys.interval(0, 10)[0] == 0 and jeffreys.interval(10, 10)[1] == 1
    assert jeffreys.probability_above(5, 10, 0.5) == pytest.approx(0.5)
    assert jeffreys.mean(5, 10) == pytest.approx(0.5)
