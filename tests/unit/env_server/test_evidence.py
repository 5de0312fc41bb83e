"""Net changes, hashes and pieces, with values worked out by hand."""

import hashlib

import pytest
from envfarm.canonical import canonical_row, content_hash
from envfarm.errors import EvidenceError

from env_server.evidence import Snapshot, Table, TableRows, compare, pieces

ITEMS = Table("items", ("id", "name"), ("id",), frozenset())


def rows(*canonical: str, digest: str = "") -> TableRows:
    made = digest or hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    return TableRows(ITEMS, canonical, canonical, made)


def snapshot(table: TableRows) -> Snapshot:
    return Snapshot({"items": table}, content_hash({"items": table.hash}))


ONE, TWO, NEW = '{"id":1,"name":"a"}', '{"id":2,"name":"b"}', '{"id":2,"name":"c"}'


def test_equal_rows_are_no_change():
    found = compare(snapshot(rows(ONE, TWO)), snapshot(rows(ONE, TWO)))
    assert found.changes == ()
    assert found.initial_state_hash == found.final_state_hash


def test_an_update_an_insert_and_a_delete_are_told_by_key():
    found = compare(snapshot(rows(ONE, TWO)), snapshot(rows(NEW, '{"id":3,"name":"d"}')))
    assert [(c.key_json, c.before, c.after) for c in found.changes] == [
        ('{"id":1}', ONE, None),
        ('{"id":2}', TWO, NEW),
        ('{"id":3}', None, '{"id":3,"name":"d"}'),
    ]
    assert [(d.rows, d.table.name) for d in found.digests] == [(2, "items")]
    assert found.initial_state_hash != found.final_state_hash


def test_a_hash_that_contradicts_the_rows_is_an_error():
    with pytest.raises(EvidenceError, match="hashes disagree"):
        compare(snapshot(rows(ONE, TWO)), snapshot(rows(ONE, TWO, digest="0" * 64)))


def test_rows_that_come_twice_contradict_their_count():
    with pytest.raises(EvidenceError, match="row counts"):
        compare(snapshot(rows(ONE)), snapshot(rows(ONE, TWO, TWO)))


def test_pieces_are_filled_up_to_a_mebibyte_and_lose_nothing():
    found = ["x" * 400_000] * 5 + ["y" * 2_000_000, "z"]
    runs = list(pieces(found, len))
    assert [len(run) for run in runs] == [2, 2, 1, 1, 1]
    assert [row for run in runs for row in run] == found


@pytest.mark.parametrize(
    ("jsonb", "canonical"),
    [
        ('{"b": 1, "a": "ä"}', '{"a":"ä","b":1}'),
        ('{"price": 12.50}', '{"price":12.5}'),
        ('{"price": 100.00}', '{"price":100}'),
        ('{"price": 100}', '{"price":100}'),
        ('{"price": -0.00}', '{"price":0}'),
        ('{"price": 0.1234567890123456789}', '{"price":"0.1234567890123456789"}'),
        ('{"price": 0.12345678901234567890}', '{"price":"0.1234567890123456789"}'),
        ('{"n": 123456789012345678901234567890}', '{"n":123456789012345678901234567890}'),
        ('{"when": "2026-03-02T09:00:00+00:00", "gone": null}',
         '{"gone":null,"when":"2026-03-02T09:00:00+00:00"}'),
    ],
)  # fmt: skip
def test_a_row_has_one_canonical_form(jsonb: str, canonical: str):
    assert canonical_row(jsonb) == canonical
