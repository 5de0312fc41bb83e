from dataclasses import replace

import pytest
from envfarm.errors import EvidenceError

from grader.evidence import verified
from grader.golden import contradictions
from tests.support.shop_world import START, after, evidence, golden

DONE = after(notes=[*START["notes"], {"id": 8, "account": 1, "text": "paid"}])


def test_honest_evidence_is_accepted_and_contradicts_nothing():
    assert contradictions(verified(evidence(DONE)), golden(DONE)) == []
    assert contradictions(verified(evidence(START)), golden(DONE)) == []
    assert contradictions(verified(evidence(after(accounts=[]))), golden(DONE)) == []


def test_a_state_hash_that_is_not_that_of_the_tables_is_refused():
    with pytest.raises(EvidenceError, match="not the hash of the table hashes"):
        verified(replace(evidence(DONE), final_state_hash="0" * 64))


def test_a_changed_state_without_a_diff_is_refused():
    with pytest.raises(EvidenceError, match="diff has 0 changes"):
        verified(replace(evidence(DONE), changes=()))


def test_an_unchanged_state_with_a_diff_is_refused():
    seen = evidence(DONE)
    with pytest.raises(EvidenceError, match="says unchanged"):
        verified(replace(seen, initial_state_hash=seen.final_state_hash))


def test_a_row_twice_in_the_diff_is_refused():
    seen = evidence(DONE)
    with pytest.raises(EvidenceError, match="twice"):
        verified(replace(seen, changes=[*seen.changes, *seen.changes]))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"table": "ghosts"}, "header does not"),
        ({"op": "update"}, "rows of a update"),
        ({"op": "delete"}, "rows of a delete"),
        ({"key": '{"id":9}'}, "another primary key"),
        ({"after": '{"id":8,"account":1}'}, "other columns"),
        ({"after": "[]"}, "not a JSON object"),
        ({"after": "{"}, "notes"),
    ],
)
def test_a_malformed_change_is_refused(fault: dict, message: str):
    seen = evidence(DONE)
    with pytest.raises(EvidenceError, match=message):
        verified(replace(seen, changes=[replace(seen.changes[0], **fault)]))


def test_another_starting_state_is_a_contradiction():
    other = after(accounts=START["accounts"][:1])
    assert contradictions(evidence(other, initial=other), golden(DONE)) == [
        "the episode started from another state than the golden run"
    ]


def test_a_table_whose_hash_hides_a_change_is_a_contradiction():
    seen = evidence(after(accounts=[], notes=[]))
    one_table_only = [change for change in seen.changes if change.table == "notes"]
    found = contradictions(replace(seen, changes=one_table_only), golden(START))
    assert any(text.startswith("accounts: its hash says changed, its diff has 0") for text in found)


def test_a_golden_diff_over_a_hash_that_is_not_golden_is_a_contradiction():
    seen = evidence(DONE)
    forged = replace(seen.tables["notes"], hash="1" * 64)
    found = contradictions(replace(seen, tables={**seen.tables, "notes": forged}), golden(DONE))
    assert found == ["notes: its diff equals the golden diff and its hash differs"]


def test_a_golden_hash_over_a_diff_that_is_not_golden_is_a_contradiction():
    seen = evidence(DONE)
    forged = replace(seen.changes[0], after='{"account":2,"id":8,"text":"paid"}')
    found = contradictions(replace(seen, changes=[forged]), golden(DONE))
    assert found == ["notes: its diff differs from the golden diff and its hash does not"]


def test_a_row_count_that_the_diff_does_not_explain_is_a_contradiction():
    seen = evidence(DONE)
    grown = replace(seen.tables["accounts"], rows=3)
    found = contradictions(replace(seen, tables={**seen.tables, "accounts": grown}), golden(DONE))
    assert found == ["accounts: 3 rows, but 2 and the diff's +0"]
