import time

import pytest
from pydantic import ValidationError

from grader.check_kinds import ReplyCheck, SqlCheck, UntouchedCheck
from grader.checks import reply, sql, untouched
from grader.verdict import CannotRun
from tests.support.shop_world import START, after, evidence


def says(text: str, **options) -> bool:
    return reply.run(ReplyCheck(name="r", kind="reply", **options), text).passed


def asks(expect, *rows: str):
    return sql.run(SqlCheck(name="q", kind="sql", query="SELECT 1", expect=expect), rows)


def test_untouched_passes_while_only_other_tables_change():
    seen = evidence(after(notes=[]))
    assert untouched.run(
        UntouchedCheck(name="u", kind="untouched", tables=["accounts"]), seen
    ).passed
    both = untouched.run(
        UntouchedCheck(name="u", kind="untouched", tables=["accounts", "notes"]), seen
    )
    assert (both.passed, both.observed) == (False, "changed: notes")


def test_untouched_cannot_run_on_a_table_that_is_not_there():
    with pytest.raises(CannotRun, match="nots"):
        untouched.run(UntouchedCheck(name="u", kind="untouched", tables=["nots"]), evidence(START))


def test_words_are_found_in_any_case_and_over_line_breaks():
    assert says("Order O-1 Was\n  Cancelled.", contains_all=["o-1", "was cancelled"])


def test_each_missing_word_fails():
    assert not says("Order O-1.", contains_all=["O-1", "cancelled"])


def test_a_forbidden_word_fails():
    assert not says("It HAS BEEN refunded", contains_none=["been refunded"])


def test_an_empty_reply_has_no_words():
    assert not says("", contains_all=["done"])
    assert says("", contains_none=["done"])


def test_a_pattern_is_searched_anywhere():
    assert says("I refunded 14,32 euros.", matches=r"\b14[.,]32\b")
    assert not says("I refunded 114,32 euros.", matches=r"\b14[.,]32\b")


def test_a_pattern_with_look_ahead_is_refused_when_the_file_is_read():
    with pytest.raises(ValidationError, match="not a usable pattern"):
        ReplyCheck(name="r", kind="reply", matches="(?=x)")


def test_a_hostile_reply_cannot_make_a_pattern_slow():
    started = time.process_time()
    assert not says("a" * 50_000 + "b", matches="^(a+)+$")
    assert time.process_time() - started < 5


def test_sql_true_passes_and_false_fails():
    assert asks(True, '{"ok":true}').passed
    assert not asks(True, '{"ok":false}').passed
    assert not asks(True, '{"ok":null}').passed


@pytest.mark.parametrize(
    "rows", [(), ('{"ok":true}', '{"ok":true}'), ('{"a":true,"b":true}',), ('{"ok":1}',)]
)
def test_sql_true_cannot_run_on_anything_but_one_truth_value(rows):
    with pytest.raises(CannotRun):
        asks(True, *rows)


def test_sql_rows_are_compared_in_order_with_numbers_as_values():
    expect = [{"id": "O-1", "sum": 28.40}, {"id": "O-2", "sum": 5}]
    assert asks(expect, '{"id":"O-1","sum":28.4}', '{"id":"O-2","sum":5.00}').passed
    assert not asks(expect, '{"id":"O-2","sum":5}', '{"id":"O-1","sum":28.4}').passed
    assert not asks(expect, '{"id":"O-1","sum":28.4}').passed


def test_sql_may_expect_no_row():
    assert asks([]).passed
