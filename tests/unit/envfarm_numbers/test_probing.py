import pytest
from hypothesis import given
from hypothesis import strategies as st

from envfarm_numbers import jeffreys
from envfarm_numbers.probe_efficiency import efficiency, fixed_wrong_band, pools
from envfarm_numbers.probing import Decision, StoppingRule

RULE = StoppingRule()
SMALL = StoppingRule(cap=12, worth=100)


def test_every_task_gets_its_minimum_and_none_exceeds_the_cap():
    assert all(RULE.should_continue(k, n) for n in range(3) for k in range(n + 1))
    assert RULE.decide(64, 128) is Decision.CAP
    assert all(SMALL.decide(k, 12) is Decision.CAP for k in range(13))


def test_a_clear_task_ends_early_and_one_on_an_edge_goes_on():
    assert RULE.decide(0, 40) is not Decision.MORE
    assert RULE.decide(20, 80) is not Decision.MORE
    assert RULE.decide(16, 40) is Decision.MORE  # 0.40 is an edge
    assert StoppingRule(confidence=0.9).decide(0, 30) is Decision.CONFIDENT


def test_a_dearer_run_ends_probing_sooner():
    cheap, dear = StoppingRule(worth=50), StoppingRule(worth=500)
    assert cheap.expected_more() < dear.expected_more()
    assert cheap.decide(3, 10) is Decision.SETTLED and dear.decide(3, 10) is Decision.MORE


@given(st.integers(0, 12), st.data())
def test_forecasts_are_the_averages_of_their_next_step(clean, data):
    passed = data.draw(st.integers(0, clean))
    more = SMALL.expected_more(passed, clean)
    if not SMALL.should_continue(passed, clean):
        assert more == 0 and SMALL.surely_more(passed, clean) == 0
        return
    rate = float(jeffreys.mean(passed, clean))
    after = [SMALL.expected_more(passed + i, clean + 1) for i in (1, 0)]
    assert more == pytest.approx(1 + rate * after[0] + (1 - rate) * after[1])
    sure = [SMALL.surely_more(passed + i, clean + 1) for i in (1, 0)]
    assert SMALL.surely_more(passed, clean) == 1 + min(sure)


def test_wrong_limits_are_refused():
    for wrong in ({"minimum": 0}, {"minimum": 9, "cap": 8}, {"confidence": 0.5}, {"worth": 0}):
        with pytest.raises(ValueError):
            StoppingRule(**wrong)
    with pytest.raises(ValueError, match="3 of 2"):
        RULE.decide(3, 2)


def test_at_equal_accuracy_at_most_six_tenths_of_the_runs_of_fixed_probing():
    for pool in pools():
        found = efficiency(RULE, pool)
        assert found.fixed_wrong_band <= found.wrong_band + 1e-12
        # The next shorter probe would not have been as accurate.
        assert fixed_wrong_band(found.fixed_k - 1, pool) > found.wrong_band
        assert found.fraction <= 0.6, found


def test_wrong_bands_of_two_fixed_runs_by_hand():
    # After two runs 0/2 names too_hard, 1/2 hard, 2/2 too_easy: what else a rate is, is wrong.
    names = [jeffreys.BANDS.index(jeffreys.band(k, 2)) for k in range(3)]
    assert names == [0, 1, 4]
    uniform = pools()[0]
    right = sum(
        w * {0: (1 - p) ** 2, 1: 2 * p * (1 - p), 4: p**2}.get(_true(p), 0.0)
        for p, w in zip(uniform.rates, uniform.weights, strict=True)
    )
    assert fixed_wrong_band(2, uniform) == pytest.approx(1 - right)


def _true(rate: float) -> int:
    return next(i for i in range(5) if rate < jeffreys.EDGES[i + 1])
