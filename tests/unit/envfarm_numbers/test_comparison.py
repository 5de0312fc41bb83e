import pytest
from envfarm.errors import ConfigError

from envfarm_numbers.comparison import compare_campaigns
from envfarm_numbers.rows import read_campaign
from tests.support.attempts import digest, row, rows_of, write_rows


@pytest.fixture
def campaign(tmp_path):
    number = iter(range(9))

    def make(rows):
        return read_campaign(write_rows(tmp_path / str(next(number)) / "attempts.jsonl", rows))

    return make


AFTER = {"policy_hash": digest("after")}


def test_tasks_gained_and_lost_over_what_both_have(campaign):
    a = campaign(rows_of({"d/a": (2, 4), "d/b": (1, 4), "d/only-a": (4, 4)}))
    b = campaign(rows_of({"d/a": (4, 4), "d/b": (0, 4)}, **AFTER))
    found = compare_campaigns(a, b)
    assert found.paired.gained_all == ["d/a"] and found.paired.lost_ever == ["d/b"]
    assert (found.a.results.pass_at_1.value, found.b.results.pass_at_1.value) == (0.375, 0.5)
    assert found.warnings == ["1 tasks left out: only A has them, such as d/only-a"]
    assert sum(found.a.failures.values()) == 5
    assert set(found.domains) == {"d"} and set(found.workflows) == {"refund"}


def test_a_task_whose_content_changed_is_not_paired(campaign):
    a = campaign(rows_of({"d/a": (2, 4), "d/b": (1, 4)}))
    changed = rows_of({"d/b": (0, 4)}, task_hash="f" * 64, **AFTER)
    b = campaign([*rows_of({"d/a": (4, 4)}, **AFTER), *changed])
    found = compare_campaigns(a, b)
    assert found.paired.tasks == 1
    assert found.warnings == ["1 tasks left out: their content differs, such as d/b"]
    with pytest.raises(ConfigError, match="no task can be paired"):
        compare_campaigns(a, campaign(changed))


def test_what_makes_a_comparison_doubtful_is_said(campaign):
    a = campaign(rows_of({"d/a": (2, 4)}))
    b = campaign(rows_of({"d/a": (2, 3)}, sampling_hash=digest("hot"), **AFTER))
    found = compare_campaigns(a, b)
    assert "sampling_hash differs" in found.warnings[0]
    assert "clean attempts a task: 4 in A, 3 in B" in found.warnings[1]
    assert found.paired.repetitions == 3
    same = compare_campaigns(a, a)
    assert same.warnings == ["both campaigns are of the same weights: what differs is chance"]


def test_other_interfaces_are_paired_only_by_force(campaign):
    a = campaign(rows_of({"d/a": (2, 4)}))
    b = campaign(rows_of({"d/a": (2, 4)}, interface="chat", **AFTER))
    with pytest.raises(ConfigError, match="tokens and chat"):
        compare_campaigns(a, b)
    assert "interfaces differ" in compare_campaigns(a, b, force=True).warnings[0]


def test_a_task_without_clean_attempt_on_one_side_is_left_out(campaign):
    a = campaign(rows_of({"d/a": (2, 4), "d/b": (1, 4)}))
    b = campaign([*rows_of({"d/a": (2, 4)}, **AFTER), row("d/b", 0, None, **AFTER)])
    assert "one side has no clean attempt" in compare_campaigns(a, b).warnings[0]
