import pytest

from envfarm_watch.scrape import Interval, Sample
from envfarm_watch.top import Top

FIRST = """
# TYPE envfarm_verdicts_total counter
envfarm_verdicts_total{domain="a",status="graded",reward="1"} 10
envfarm_verdicts_total{domain="a",status="graded",reward="0"} 30
envfarm_verdicts_total{domain="a",status="ungradable",reward="none"} 2
# TYPE envfarm_grade_seconds histogram
envfarm_grade_seconds_bucket{input="episode",le="+Inf"} 40
envfarm_grade_seconds_count{input="episode"} 40
envfarm_grade_seconds_sum{input="episode"} 0.4
# TYPE envfarm_rollouts_running gauge
envfarm_rollouts_running{stage="generate"} 5
envfarm_rollouts_running{stage="tool"} 1
"""
SECOND = """
envfarm_verdicts_total{domain="a",status="graded",reward="1"} 20
envfarm_verdicts_total{domain="a",status="graded",reward="0"} 35
envfarm_verdicts_total{domain="a",status="ungradable",reward="none"} 2
envfarm_grade_seconds_count{input="episode"} 55
envfarm_grade_seconds_sum{input="episode"} 1.9
envfarm_rollouts_running{stage="generate"} 8
envfarm_rollouts_running{stage="tool"} 0
"""


def interval(*, before: str = FIRST, after: str = SECOND, seconds: float = 5.0) -> Interval:
    return Interval(Sample.read(100.0, [before]), Sample.read(100.0 + seconds, [after]))


def test_a_rate_is_growth_over_seconds_summed_over_series():
    assert interval().rate("envfarm_verdicts_total") == pytest.approx(3.0)
    assert interval().rate("envfarm_verdicts_total", reward="1") == pytest.approx(2.0)


def test_a_counter_that_is_not_there_has_no_rate():
    assert interval().rate("envfarm_groups_total") is None


def test_a_counter_that_began_again_counts_from_zero():
    begun = interval(before='envfarm_leaks_total{w="a"} 90', after='envfarm_leaks_total{w="a"} 10')
    assert begun.rate("envfarm_leaks_total") == pytest.approx(2.0)


def test_a_series_that_is_new_counts_from_zero():
    new = interval(before="", after='envfarm_leaks_total{w="a"} 10')
    assert new.rate("envfarm_leaks_total") == pytest.approx(2.0)


def test_the_mean_is_that_of_the_interval_alone():
    assert interval().mean("envfarm_grade_seconds") == pytest.approx(1.5 / 15)


def test_nothing_observed_has_no_mean():
    assert interval(before=SECOND, after=SECOND).mean("envfarm_grade_seconds") is None


def test_pages_of_several_processes_add_up():
    both = Sample.read(0.0, [FIRST, SECOND])
    assert both.total("envfarm_rollouts_running", stage="generate") == 13
    assert both.by("stage", "envfarm_rollouts_running") == {"generate": 13, "tool": 1}


def test_top_tells_what_moved_and_leaves_unknown_what_nobody_told():
    top = Top.of(interval())
    assert top.episodes_graded == pytest.approx(3.0)
    assert top.in_flight == {"generate": 8}
    assert top.episodes_opened is None and top.reward_mean is None
    assert top.to_json()["grade_seconds"] == pytest.approx(0.1)
