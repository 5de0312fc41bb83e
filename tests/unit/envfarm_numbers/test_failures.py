import pytest

from envfarm_numbers.failures import (
    CLASSES,
    end_state,
    excused_counts,
    expected_writes,
    failure_class,
    failure_counts,
)
from tests.support.attempts import row

RIGHT = {"refunds": {"insert": 1}, "orders": {"update": 1}}
STATE = {"name": "final state", "kind": "state", "passed": False}
REPLY = {"name": "names amount", "kind": "reply", "passed": False}
UNTOUCHED = {"name": "customers", "kind": "untouched", "passed": False}
SEEN = expected_writes([row("d/a", 9, 1.0, writes=RIGHT), row("d/none", 9, 1.0, writes={})])


def failed(task="d/a", **changes):
    return row(task, 0, 0.0, **{"checks": [STATE], "writes": RIGHT, **changes})


@pytest.mark.parametrize(
    "attempt, name",
    [
        (failed(), "wrong record"),
        (failed(writes={"refunds": {"insert": 1}}), "missing step"),
        (failed(writes={**RIGHT, "refunds": {"insert": 2}}), "extra write"),
        (failed(writes={"refunds": {"insert": 2}}), "wrong record"),
        (failed(writes={**RIGHT, "customers": {"update": 1}}), "forbidden write"),
        (failed(checks=[STATE, UNTOUCHED]), "forbidden write"),
        (failed(writes={}), "no write"),
        (failed(writes={}, tool_errors=1), "tool trouble"),
        (failed(writes={}, tool_calls=0), "premature stop"),
        (failed(status="truncated_tokens"), "premature stop"),
        (failed(checks=[REPLY]), "reply"),
        (failed(checks=[REPLY], tool_calls=0, writes={}), "reply"),
        (failed("d/none"), "extra write"),
        (failed("d/never-passed"), "wrong record"),
    ],
)
def test_each_failure_has_the_class_of_the_first_rule_that_fits(attempt, name):
    assert failure_class(attempt, SEEN) == name


def test_only_failed_attempts_have_a_class_and_every_failed_one_has_exactly_one():
    rows = [row("d/a", 0), row("d/a", 1, None), failed(), failed(writes={})]
    with pytest.raises(ValueError):
        failure_class(rows[0], SEEN)
    found = failure_counts(rows, SEEN)
    assert tuple(found) == CLASSES and sum(found.values()) == 2
    assert (found["wrong record"], found["no write"]) == (1, 1)


def test_the_commonest_right_end_is_the_expected_one():
    rows = [row("d/a", i, 1.0, writes=RIGHT) for i in range(2)]
    rows.append(row("d/a", 2, 1.0, writes={}))
    rows.append(row("d/a", 3, 0.0, writes={"x": {"insert": 9}}))
    assert expected_writes(rows) == {"d/a": {("orders", "update"): 1, ("refunds", "insert"): 1}}


def test_end_states():
    assert end_state(row("d/a", 0)) == "matched expected"
    assert end_state(failed(checks=[{**STATE, "passed": True}, REPLY])) == "matched expected"
    assert end_state(failed(writes={})) == "kept untouched"
    assert end_state(failed()) == "other"
    assert end_state(row("d/a", 0, None)) == "unknown"


def test_attempts_without_reward_are_listed_by_where_they_broke():
    rows = [row("d/a", i, None) for i in range(2)] + [
        row("d/a", 3, None, boundary="grader", error_class="NoChecks")
    ]
    assert excused_counts([*rows, row("d/a", 4)]) == [
        {"boundary": "env", "error_class": "DatabaseError", "attempts": 2},
        {"boundary": "grader", "error_class": "NoChecks", "attempts": 1},
    ]
