import pytest

from grader.rows import canonical_text, parse_row


def test_one_number_written_three_ways_reads_alike():
    texts = {
        canonical_text(parse_row(text)) for text in ('{"a":49.90}', '{"a":4.99e1}', '{"a": 49.9}')
    }
    assert texts == {'{"a":49.9}'}


def test_a_whole_number_and_the_same_number_with_zeros_read_alike():
    assert canonical_text(parse_row('{"a":50.00}')) == canonical_text({"a": 50}) == '{"a":50}'


def test_a_number_is_not_the_text_that_looks_like_it():
    assert canonical_text({"a": "49.9"}) != canonical_text({"a": 49.9})


def test_true_is_not_one():
    assert canonical_text({"a": True}) != canonical_text({"a": 1})


def test_digits_beyond_a_double_are_kept():
    long = '{"a":1234567890.12345678901234567890123456789}'
    assert canonical_text(parse_row(long)) == long


def test_minus_zero_is_zero():
    assert canonical_text(parse_row('{"a":-0.00}')) == '{"a":0}'


def test_keys_are_sorted_at_every_depth():
    assert canonical_text({"b": {"d": 1, "c": None}, "a": []}) == '{"a":[],"b":{"c":null,"d":1}}'


@pytest.mark.parametrize("text", ["[1]", "3", '{"a": NaN}', "{", ""])
def test_what_is_not_a_json_object_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_row(text)
