"""What a `state` check may declare about values, by hand-made rows."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from grader.check_kinds import StateCheck
from grader.checks import state
from grader.checks.matching import Comparable, unmatched
from grader.verdict import CannotRun
from tests.support.shop_world import START, after, evidence, golden


def check(**options) -> StateCheck:
    return StateCheck(name="s", kind="state", **options)


def passes(observed, expected, **options) -> bool:
    return state.run(check(**options), evidence(observed), golden(expected)).passed


def balance(value):
    return after(accounts=[{"id": 1, "name": "Ada", "balance": value}, START["accounts"][1]])


def text(value):
    return after(notes=[*START["notes"], {"id": 8, "account": 1, "text": value}])


@pytest.mark.parametrize(
    ("seen", "is_right"), [(7.05, True), (6.95, True), (7.0501, False), (7, True), (None, False), ("7", True), ("x", False), (True, False)]
)  # fmt: skip
def test_a_number_within_its_tolerance_passes(seen, is_right: bool):
    assert passes(balance(seen), balance(7), tolerance={"accounts.balance": 0.05}) is is_right


def test_null_is_near_null_only():
    assert passes(balance(None), balance(None), tolerance={"accounts.balance": 5})
    assert not passes(balance(0), balance(None), tolerance={"accounts.balance": 5})


@pytest.mark.parametrize(
    ("seen", "is_right"),
    [
        ("2026-03-02T09:04:59+00:00", True),
        ("2026-03-02T09:05:00+00:00", True),
        ("2026-03-02T09:05:00.000001+00:00", False),
        ("2026-03-02T10:03:00+01:00", True),
        ("2026-03-02T09:01:00", True),
        ("2026-03-02", False),
        ("soon", False),
        (None, False),
    ],
)
def test_a_time_within_its_window_passes(seen, is_right: bool):
    expected = text("2026-03-02T09:00:00+00:00")
    assert passes(text(seen), expected, windows={"notes.text": "5m"}) is is_right


def test_arrays_without_order_are_multisets():
    options = {"unordered": ["notes.text"]}
    assert passes(text([1, "b", {"x": [2]}]), text(["b", {"x": [2]}, 1.0]), **options)
    assert not passes(text([1, 1, 2]), text([1, 2, 2]), **options)
    assert not passes(text([1]), text(["1"]), **options)
    assert not passes(text([1, 2]), text([2, 1]))


def test_only_the_named_array_inside_json_has_no_order():
    expected = text({"parts": [1, 2], "steps": [1, 2], "sets": [{"parts": [1, 2]}]})
    options = {"unordered": ["notes.text.parts", "notes.text.sets.parts"]}
    assert passes(
        text({"sets": [{"parts": [2, 1]}], "steps": [1, 2], "parts": [2, 1]}), expected, **options
    )
    assert not passes(
        text({"parts": [1, 2], "steps": [2, 1], "sets": [{"parts": [1, 2]}]}), expected, **options
    )


@pytest.mark.parametrize(
    ("seen", "is_right"),
    [
        ('{"b": [1, 2.0],"a":null}', True),
        ('{"b": [2, 1], "a": null}', False),
        ('{"b": [1, "2"], "a": null}', False),
        ('{"b": [1, 2], "a": null} ', True),
        ('{"b": [1, 2], "a": null}, "c": 1', False),
        ("[" * 100_000, False),
        ("NaN", False),
        ("", False),
    ],
)
def test_json_in_a_text_is_compared_by_what_it_says(seen: str, is_right: bool):
    expected = text('{"a": null, "b": [1, 2]}')
    assert passes(text(seen), expected, json_text=["notes.text"]) is is_right


def test_so_many_more_rows_are_allowed_and_no_other_change():
    def logged(*texts: str):
        extra = [{"id": 10 + i, "account": 1, "text": t} for i, t in enumerate(texts)]
        return after(notes=[*START["notes"], *extra])

    options = {"allow_rows": [{"table": "notes", "where": {"text": "read"}, "at_most": 2}]}
    assert passes(logged("read", "read"), START, **options)
    assert not passes(logged("read", "read", "read"), START, **options)
    assert not passes(logged("write"), START, **options)
    assert not passes(after(notes=[{**START["notes"][0], "text": "read"}]), START, **options)
    assert not passes(after(notes=[]), START, **options)


def test_an_allowed_row_does_not_stand_for_a_missing_one():
    options = {"allow_rows": [{"table": "notes", "where": {"text": "read"}, "at_most": 2}]}
    assert not passes(text("read"), text("write"), **options)


def test_two_new_rows_with_one_key_cannot_be_referred_to():
    twins = [{"id": 8, "account": 1, "text": "a"}, {"id": 9, "account": 1, "text": "b"}]
    ends = after(notes=[*START["notes"], *twins])
    with pytest.raises(CannotRun, match="two new rows of the golden run share one"):
        passes(ends, ends, keys={"notes": ["account"]}, refs={"accounts.balance": "notes"})
    assert passes(ends, ends, keys={"notes": ["account"]})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"unstable": ["notes.text"], "ignore": ["notes.text"]}, "two rules"),
        ({"tolerance": {"notes.text": 1}, "windows": {"notes.text": "1m"}}, "two rules"),
        ({"keys": {"notes": ["text"]}, "unstable": ["notes.text"]}, "natural key"),
        ({"tolerance": {"notes.text": 0}}, "greater than 0"),
        ({"windows": {"notes.text": "5 minutes"}}, "pattern"),
        ({"windows": {"notes.text": "0s"}}, "pattern"),
        ({"allow_rows": [{"table": "notes", "at_most": 0}]}, "greater than or equal to 1"),
        ({"allow_rows": [{"table": "notes", "where": {"text": "x"}, "at_most": 1}], "ignore": ["notes.text"]}, "loosens"),
    ],
)  # fmt: skip
def test_declarations_that_contradict_each_other_are_refused(options, why: str):
    with pytest.raises(ValidationError, match=why):
        check(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"ignore": ["notes.txet"]},
        {"unordered": ["notes.txet.x"]},
        {"json_text": ["nots.text"]},
        {"tolerance": {"notes.txet": 1}},
        {"windows": {"notes.txet": "1m"}},
        {"allow_rows": [{"table": "nots", "at_most": 1}]},
        {"allow_rows": [{"table": "notes", "where": {"txet": 1}, "at_most": 1}]},
    ],
)
def test_a_misspelt_name_cannot_run(options):
    with pytest.raises(CannotRun, match="the world has no"):
        passes(START, START, **options)


def row(*values: int) -> Comparable:
    return Comparable("t", tuple(map(Decimal, values)), (Decimal(1),) * len(values))


def test_rows_are_paired_so_that_as_many_as_possible_fit():
    # 1 could take 0 or 2; only if it takes 2 does 0 stay for -1.
    missing, extra = unmatched([row(1), row(-1)], [row(0), row(2)])
    assert (missing, extra) == ([], [])
    # In two dimensions the nearest in one is not the right one in the other.
    missing, extra = unmatched([row(0, 0), row(1, 5)], [row(1, 1), row(0, 4)])
    assert (missing, extra) == ([], [])


numbers = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5)


@given(numbers, numbers)
def test_no_larger_pairing_exists(left, right):
    def most(wanted, free) -> int:
        if not wanted:
            return 0
        first, *rest = wanted
        taken = [
            1 + most(rest, free[:i] + free[i + 1 :])
            for i, other in enumerate(free)
            if abs(first[0] - other[0]) <= 1 and abs(first[1] - other[1]) <= 1
        ]
        return max([most(rest, free), *taken])

    missing, extra = unmatched([row(*pair) for pair in left], [row(*pair) for pair in right])
    assert len(left) - len(missing) == len(right) - len(extra) == most(left, right)


def test_a_thousand_rows_with_tolerances_are_paired():
    rows = [row(3 * n) for n in range(1000)]
    assert unmatched(rows, list(reversed(rows))) == ([], [])


def test_many_differences_are_counted_and_not_all_shown():
    many = [{"id": 100 + n, "account": 1, "text": "x"} for n in range(30)]
    result = state.run(check(), evidence(after(notes=[*START["notes"], *many])), golden(START))
    assert result.observed.endswith(',"and 10 more"]')
