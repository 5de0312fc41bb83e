"""Rows as Postgres writes them, in canonical form: equal values read alike, other values never do."""

import json

import pytest
from envfarm.canonical import canonical_row


@pytest.mark.parametrize(
    ("one", "other"), [("12.50", "12.5"), ("3.00", "3"), ("-0.0", "0"), ("1e2", "100")]
)
def test_equal_numbers_read_alike(one: str, other: str):
    assert canonical_row(f'{{"n":{one}}}') == canonical_row(f'{{"n":{other}}}')


@pytest.mark.parametrize("tail", ["", ".5"])
def test_a_number_of_a_hundred_thousand_digits_is_told_from_its_neighbour(tail: str):
    digits = "1" + "0" * 100_000
    near = digits[:-1] + "1"
    assert canonical_row(f'{{"n":{digits}{tail}}}') != canonical_row(f'{{"n":{near}{tail}}}')
    assert canonical_row(f'{{"n":{digits}{tail}0}}') == canonical_row(
        f'{{"n":{digits}{tail}{"00" if tail else "0"}}}'
    )
    assert json.loads(canonical_row(f'{{"a":1,"n":{digits}{tail}}}'))["a"] == 1
