"""A member that stands twice in an object is refused, however it is spelled and whatever it holds."""

import json
from typing import Any

import msgspec
import pytest
from envfarm.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st

from grader.ask import RegradeRequest, read, read_batch, read_grade
from grader.once import require_members_once, require_once

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab"\\{},: \n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAMES = st.text('ab"\\{}:,é', max_size=2)
PAIRS = st.lists(st.tuples(NAMES, VALUES, st.sampled_from(["", " ", "\n\t "])), max_size=5)
HEAD = {"request_id": "r", "task_id": "shop/t", "task_hash": "0" * 64}


def written(pairs: list[tuple[str, Any, str]]) -> bytes:
    members = (f"{s}{json.dumps(n)}{s}:{s}{json.dumps(v)}{s}" for n, v, s in pairs)
    return ("{" + ",".join(members) + "}").encode()


def refused(check: Any, *arguments: Any) -> bool:
    try:
        check(*arguments)
    except ValueError as error:
        assert str(error).endswith("is there twice")
        return True
    return False


@given(PAIRS)
def test_exactly_the_objects_with_a_member_twice_are_refused(pairs: list[tuple[str, Any, str]]):
    text = written(pairs)
    twice = len({name for name, _, _ in pairs}) != len(pairs)
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    assert refused(require_members_once, text, fields) is twice
    assert refused(require_once, text) is twice


@given(PAIRS)
def test_the_tables_of_a_state_are_walked_like_the_members_around_them(
    pairs: list[tuple[str, Any, str]],
):
    state = written([(name, [value], blank) for name, value, blank in pairs])
    body = json.dumps(HEAD)[:-1].encode() + b',"state" : ' + state + b' ,"final_reply":"}"}'
    if len({name for name, _, _ in pairs}) == len(pairs):
        assert set(read_grade(body).state or {}) == {name for name, _, _ in pairs}
    else:
        with pytest.raises(InvalidArgument, match="is there twice"):
            read_grade(body)


@pytest.mark.parametrize("second", [b'{"a":[]}', b"{}", b"null"])
def test_a_second_state_is_named(second: bytes):
    body = json.dumps(HEAD)[:-1].encode() + b',"state":{"a":[1]},"state":' + second + b"}"
    with pytest.raises(InvalidArgument, match="'state' is there twice"):
        read_grade(body)


def test_the_envelopes_of_a_batch_and_of_a_regrade_are_looked_at_too():
    with pytest.raises(InvalidArgument, match="'requests' is there twice"):
        read_batch(b'{"requests":[{}],"requests":[{"a":1}]}')
    with pytest.raises(InvalidArgument, match="'checks' is there twice"):
        read(RegradeRequest, b'{"verdict_id":"v","checks":"current","checks":"original"}')
