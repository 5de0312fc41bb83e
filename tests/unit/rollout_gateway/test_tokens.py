"""Token streams: lengths, masks, spans."""

import pytest
from envfarm.errors import InternalError
from envfarm.v1 import trajectory_pb2
from hypothesis import given
from hypothesis import strategies as st

from rollout_gateway.tokens import Span, TokenStream


def test_given_tokens_carry_no_mask_and_no_logprob():
    stream = TokenStream()
    assert stream.give([1, 2]) == (0, 2)
    assert stream.sample([3, 4, 5], [-0.1, -0.2, -0.3], [(7, 3)]) == (2, 3)
    assert stream.give([6]) == (5, 1)
    assert stream.ids == [1, 2, 3, 4, 5, 6]
    assert list(stream.mask) == [0, 0, 1, 1, 1, 0]
    assert stream.logprobs == [0, 0, -0.1, -0.2, -0.3, 0]
    assert stream.spans == [Span(2, 3, 7)]


def test_one_turn_under_two_versions_has_two_spans():
    stream = TokenStream()
    stream.give([1])
    stream.sample([2, 3, 4], [-1, -1, -1], [(7, 2), (8, 1)])
    assert stream.spans == [Span(1, 2, 7), Span(3, 1, 8)]


def test_turns_that_touch_under_one_version_share_a_span():
    stream = TokenStream()
    stream.give([1])
    stream.sample([2], [-1], [(7, 1)])
    stream.sample([3], [-1], [(7, 1)])
    assert stream.spans == [Span(1, 2, 7)]


@pytest.mark.parametrize(
    ("ids", "logprobs", "versions"),
    [([2, 3], [-1.0], [(7, 2)]), ([2, 3], [-1.0, -1.0], [(7, 1)]), ([2], [-1.0], [])],
)
def test_lengths_that_differ_are_refused(
    ids: list[int], logprobs: list[float], versions: list[tuple[int, int]]
):
    stream = TokenStream()
    stream.give([1])
    with pytest.raises(InternalError):
        stream.sample(ids, logprobs, versions)
    assert len(stream) == 1


def test_the_first_token_cannot_be_sampled():
    with pytest.raises(InternalError, match="first token"):
        TokenStream().sample([1], [-1.0], [(7, 1)])


PIECE = st.one_of(
    st.tuples(st.just("give"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("sample"), st.integers(1, 4), st.integers(1, 3)),
)


@given(st.lists(PIECE, max_size=12))
def test_spans_cover_exactly_the_sampled_tokens(pieces: list[tuple[str, int, int]]):
    stream = TokenStream()
    stream.give([0])
    for kind, length, version in pieces:
        if kind == "give":
            stream.give([1] * length)
        else:
            stream.sample([1] * length, [-1.0] * length, [(version, length)])
    trajectory = trajectory_pb2.Trajectory()
    stream.write_to(trajectory)
    total = len(trajectory.token_ids)
    assert total == len(trajectory.loss_mask) == len(trajectory.logprobs)
    covered = [i for s in trajectory.version_spans for i in range(s.start, s.start + s.length)]
    assert covered == [i for i, bit in enumerate(trajectory.loss_mask) if bit]
