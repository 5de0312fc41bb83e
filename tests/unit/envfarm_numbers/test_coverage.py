import pytest
from envfarm.errors import ConfigError
from hypothesis import given
from hypothesis import strategies as st

from envfarm_numbers.counts import TaskCounts, count
from envfarm_numbers.coverage import bounds, coverage, repetitions_seen
from envfarm_numbers.rows import read_campaign
from tests.support.attempts import digest, row, rows_of, write_rows


@pytest.fixture
def campaign(tmp_path):
    rows = rows_of({"d/a": (1, 2), "d/b": (2, 2)})
    rows[3] = row("d/b", 1, None)
    return read_campaign(write_rows(tmp_path / "attempts.jsonl", rows))


def test_a_repetition_without_reward_is_missing_and_closes_the_gate(campaign):
    found = coverage(campaign, 2)
    assert (found.planned, found.covered, found.missing) == (4, 3, [("d/b", 1)])
    with pytest.raises(ConfigError, match="1 of 4 attempts have no reward, the first is rep"):
        found.check()


def test_a_task_of_the_suite_that_was_never_run_is_missing(campaign):
    suite = {"d/a": digest("d/a"), "d/b": digest("d/b"), "d/c": digest("d/c")}
    assert coverage(campaign, 2, suite).missing == [("d/b", 1), ("d/c", 0), ("d/c", 1)]


def test_what_nobody_planned_closes_the_gate_too(campaign):
    found = coverage(campaign, 1, {"d/a": digest("d/a"), "d/b": "0" * 64})
    assert found.unplanned == [("d/a", 1), ("d/b", 1)]
    assert found.changed == ["d/b"]
    with pytest.raises(ConfigError, match=r"2 were not planned.*1 tasks have other content"):
        found.check()


def test_bounds_both_ways_by_hand(campaign):
    counts = count(campaign)
    found = bounds(counts.tasks, list(counts.tasks), 2)
    assert [(b.name, b.if_failed, b.if_passed) for b in found] == [
        ("pass@1", 0.5, 0.75),
        ("observed 2/2", 0.0, 0.5),
        ("ever passed", 1.0, 1.0),
    ]
    assert repetitions_seen(campaign) == 2


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0, 1, None])), min_size=4, max_size=4))
def test_the_finished_campaign_lies_between_its_bounds(attempts):
    """Two tasks of two repetitions; None is missing and ends as the other value says."""
    now, end = {}, {}
    for i, (truth, seen) in enumerate(attempts):
        task = f"d/{i % 2}"
        final = truth if seen is None else bool(seen)
        one, full = now.setdefault(task, TaskCounts(task)), end.setdefault(task, TaskCounts(task))
        full.clean, full.passed = full.clean + 1, full.passed + final
        if seen is not None:
            one.clean, one.passed = one.clean + 1, one.passed + final
    for between, exact in zip(
        bounds(now, ["d/0", "d/1"], 2), bounds(end, ["d/0", "d/1"], 2), strict=True
    ):
        assert between.if_failed <= exact.if_failed == exact.if_passed <= between.if_passed
