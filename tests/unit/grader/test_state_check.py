import pytest

from grader.check_kinds import StateCheck
from grader.checks import state
from grader.verdict import CannotRun
from tests.support.shop_world import START, after, evidence, golden

ADA_PAYS = [{"id": 1, "name": "Ada", "balance": 7}, START["accounts"][1]]
NOTE = {"id": 8, "account": 1, "text": "paid"}


def check(**options) -> StateCheck:
    return StateCheck(name="s", kind="state", **options)


def passes(observed, expected, **options) -> bool:
    return state.run(check(**options), evidence(observed), golden(expected)).passed


def test_the_same_end_passes():
    assert passes(after(accounts=ADA_PAYS), after(accounts=ADA_PAYS))


def test_nothing_done_where_nothing_was_to_be_done_passes():
    assert passes(START, START)


def test_a_missing_change_fails_and_is_named():
    result = state.run(check(), evidence(START), golden(after(accounts=ADA_PAYS)))
    assert not result.passed
    assert result.expected == (
        '[{"op":"update","row":{"balance":7,"id":1,"name":"Ada"},"table":"accounts"}]'
    )
    assert result.observed == "[]"


def test_a_change_too_many_fails():
    assert not passes(after(accounts=ADA_PAYS, notes=[]), after(accounts=ADA_PAYS))


def test_another_value_fails():
    wrong = [{"id": 1, "name": "Ada", "balance": 8}, START["accounts"][1]]
    assert not passes(after(accounts=wrong), after(accounts=ADA_PAYS))


def test_a_deleted_row_is_known_by_its_key():
    assert passes(after(notes=[]), after(notes=[]))
    assert not passes(
        after(accounts=[START["accounts"][0]]), after(accounts=[START["accounts"][1]])
    )


def test_an_unstable_column_may_differ_in_a_new_row():
    observed = after(notes=[*START["notes"], {**NOTE, "text": "has paid"}])
    expected = after(notes=[*START["notes"], NOTE])
    assert not passes(observed, expected)
    assert passes(observed, expected, unstable=["notes.text"])


def test_an_unstable_column_of_a_row_that_was_to_be_left_alone_must_not_change():
    observed = after(notes=[{**START["notes"][0], "text": "new"}])
    assert not passes(observed, START, unstable=["notes.text"])
    assert passes(
        observed, after(notes=[{**START["notes"][0], "text": "x"}]), unstable=["notes.text"]
    )


def test_an_ignored_column_counts_in_no_row():
    observed = after(notes=[{**START["notes"][0], "text": "new"}])
    assert passes(observed, START, ignore=["notes.text"])
    assert not passes(after(notes=[]), START, ignore=["notes.text"])


def test_an_allowed_table_may_end_in_any_state():
    assert passes(after(notes=[]), START, allow_tables=["notes"])
    assert not passes(after(accounts=ADA_PAYS, notes=[]), START, allow_tables=["notes"])


def test_a_natural_key_lets_generated_ids_differ():
    observed = after(notes=[*START["notes"], {**NOTE, "id": 9}])
    expected = after(notes=[*START["notes"], NOTE])
    assert not passes(observed, expected)
    assert passes(observed, expected, keys={"notes": ["account", "text"]})


def test_a_natural_key_still_counts_rows():
    twice = after(notes=[*START["notes"], NOTE, {**NOTE, "id": 9}])
    once = after(notes=[*START["notes"], NOTE])
    assert not passes(twice, once, keys={"notes": ["account", "text"]})


def test_a_natural_key_leaves_old_rows_their_ids():
    # Row 7 was there before: deleting it and making it anew under another id is a difference.
    observed = after(notes=[{**START["notes"][0], "id": 9}])
    assert not passes(observed, START, keys={"notes": ["account", "text"]})


def test_a_reference_to_a_generated_id_follows_the_row():
    def linked(note_id: int):
        return after(
            accounts=[{"id": 1, "name": "Ada", "balance": note_id}, START["accounts"][1]],
            notes=[*START["notes"], {**NOTE, "id": note_id}],
        )

    options = {"keys": {"notes": ["text"]}, "refs": {"accounts.balance": "notes"}}
    assert passes(linked(9), linked(8), **options)
    assert not passes(linked(9), linked(8), keys={"notes": ["text"]})


def test_a_reference_to_the_wrong_new_row_fails():
    def linked(to: int):
        return after(
            accounts=[{"id": 1, "name": "Ada", "balance": to}, START["accounts"][1]],
            notes=[*START["notes"], NOTE, {"id": 9, "account": 2, "text": "other"}],
        )

    options = {"keys": {"notes": ["text"]}, "refs": {"accounts.balance": "notes"}}
    assert passes(linked(8), linked(8), **options)
    assert not passes(linked(9), linked(8), **options)


def test_references_in_a_circle_cannot_run():
    observed = after(notes=[*START["notes"], {"id": 8, "account": 8, "text": "self"}])
    with pytest.raises(CannotRun, match="circle"):
        passes(observed, START, keys={"notes": ["account"]}, refs={"notes.account": "notes"})


@pytest.mark.parametrize(
    "options",
    [
        {"unstable": ["notes.txet"]},
        {"allow_tables": ["nots"]},
        {"keys": {"notes": ["acount"]}},
        {"keys": {"nots": ["text"]}},
        {"keys": {"notes": ["text"]}, "refs": {"accounts.blance": "notes"}},
    ],
)
def test_a_misspelt_name_cannot_run(options):
    with pytest.raises(CannotRun, match="the world has no"):
        passes(START, START, **options)
