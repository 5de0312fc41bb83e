"""Packing and padding: the one shift, no loss of tokens, equal work for ranks, order-free."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.line import Line
from learner.micro_batch import MicroBatch, own_width, owners, split


def line(key: str, ids: list[int], sampled: list[int], **changes) -> Line:
    mask = np.array(sampled, dtype=bool)
    values = dict(
        key=key,
        token_ids=np.array(ids, dtype=np.int64),
        sampled=mask,
        weight=0.25,
        advantage=0.5,
        old_logprobs=np.where(mask, -np.arange(len(ids)), 0).astype(np.float32),
        versions=np.where(mask, 3, -1),
    )
    return Line(**{**values, **changes})


LINES = [
    line("a", [20, 21], [0, 1], advantage=-0.5),
    line("b", [10, 11, 12, 13], [0, 1, 0, 1]),
]


def test_a_packed_row_predicts_each_sampled_token_from_the_position_before_it():
    ((m,),) = split(LINES, tokens=100, packed=True)
    assert m.token_ids.tolist() == [[10, 11, 12, 13, 20, 21]]
    assert m.positions.tolist() == [[0, 1, 2, 3, 0, 1]]
    assert m.lengths == (4, 2)
    assert m.predicts.tolist() == [0, 2, 4]
    assert m.targets.tolist() == [11, 13, 21]
    assert m.lines.tolist() == [0, 0, 1]
    assert m.old_logprobs.tolist() == [-1, -3, -1]
    assert m.advantages.tolist() == [0.5, 0.5, -0.5]
    assert m.weights.tolist() == [0.25] * 3
    assert m.versions.tolist() == [3, 3, 3]
    assert m.padding == 0


ALIKE = [
    line("a", [1, 2, 3, 20, 21], [0, 0, 1, 0, 1]),
    line("b", [1, 2, 3, 10, 11, 12], [0, 0, 1, 1, 0, 1]),
    line("c", [1, 2, 3, 10], [0, 0, 0, 1]),
]


def test_what_all_lines_begin_with_stands_once_and_every_token_is_still_predicted():
    ((m,),) = split(ALIKE, tokens=100, packed=True, shared=True)
    assert m.token_ids.tolist() == [[1, 2, 3, 10, 11, 12, 20, 21, 10]]
    assert m.positions.tolist() == [[0, 1, 2, 3, 4, 5, 3, 4, 3]]
    assert (m.shared, m.lengths, m.tokens) == (3, (3, 2, 1), 9)
    assert m.predicts.tolist() == [1, 2, 4, 1, 6, 2]
    assert m.targets.tolist() == [3, 10, 12, 3, 21, 10]
    assert m.lines.tolist() == [0, 0, 0, 1, 1, 2]


def test_a_line_keeps_a_token_of_its_own_and_a_single_line_shares_nothing():
    twice = [line("a", [1, 2, 3], [0, 0, 1]), line("b", [1, 2, 3], [0, 0, 1])]
    ((m,),) = split(twice, tokens=100, packed=True, shared=True)
    assert (m.shared, m.lengths) == (2, (1, 1))
    ((m,),) = split(twice[:1], tokens=100, packed=True, shared=True)
    assert (m.shared, m.lengths) == (0, (3,))
    ((m,),) = split(LINES, tokens=100, packed=True, shared=True)
    assert (m.shared, m.lengths) == (0, (4, 2))


def test_padded_rows_predict_the_same_targets():
    ((m,),) = split(LINES, tokens=100, packed=False)
    assert m.token_ids.tolist() == [[10, 11, 12, 13], [20, 21, 0, 0]]
    assert m.positions.tolist() == [[0, 1, 2, 3]] * 2
    assert m.predicts.tolist() == [0, 2, 4]
    assert m.targets.tolist() == [11, 13, 21]
    assert m.lines.tolist() == [0, 0, 1]
    assert m.padding == 2


lengths = st.lists(st.integers(1, 30), max_size=40)


@given(lengths, st.integers(1, 64), st.booleans(), st.integers(1, 4))
def test_every_line_is_in_one_micro_batch_and_ranks_get_equally_many(sizes, tokens, packed, ranks):
    lines = [line(f"{i:03d}", [i] * n, [0] + [1] * (n - 1)) for i, n in enumerate(sizes)]
    shares = split(lines, tokens=tokens, packed=packed, ranks=ranks)
    assert len(shares) == ranks
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) >= 1
    parts = [part for share in shares for part in share]
    found = sorted(int(target) for part in parts for target in part.targets)
    assert found == sorted(i for i, n in enumerate(sizes) for _ in range(n - 1))
    for part in parts:
        assert part.token_ids.numel() <= tokens or len(part.lengths) == 1
        assert part.token_ids.flatten()[part.predicts + 1].equal(part.targets)


def same(a: MicroBatch, b: MicroBatch) -> bool:
    return torch.equal(a.token_ids, b.token_ids) and torch.equal(a.predicts, b.predicts)


@pytest.mark.parametrize("packed", [True, False])
def test_the_order_of_lines_does_not_change_the_micro_batches(packed: bool):
    lines = [line(f"{i}", [i] * (3 + i % 3), [0, 1] + [0] * (1 + i % 3)) for i in range(9)]
    (one,), (two,) = (split(some, tokens=11, packed=packed) for some in (lines, lines[::-1]))
    assert len(one) == len(two) > 2
    assert all(same(a, b) for a, b in zip(one, two, strict=True))


def test_packed_parts_are_of_even_size():
    lines = [line(f"{n}", [1] * n, [0] * n) for n in range(2, 30)]
    sizes = [part.tokens for part in split(lines, tokens=100, packed=True)[0]]
    assert max(sizes) - min(sizes) <= 4
    assert sum(sizes) == sum(range(2, 30))


def test_ranks_that_share_a_row_know_who_predicts_what():
    """20 positions for 2 ranks: 10 each; the most targets that one of them has is what counts."""
    sampled = [0, *([1] * 12), *([0] * 7)]
    ((m,),) = split([line("a", list(range(1, 21)), sampled)], tokens=100, packed=True, sharing=2)
    assert own_width(20, 2) == 10
    assert owners(m, 2).tolist() == [0] * 10 + [1] * 2
    assert m.most_targets == 10
    assert own_width(21, 2) == 11
    assert own_width(4, 2) == 8, "a convolution of 4 reads 3 positions of the rank before"


def test_in_padded_rows_every_row_is_shared_out():
    lines = [line("a", list(range(1, 21)), [0] + [1] * 19), line("b", [1] * 18, [0] * 17 + [1])]
    ((m,),) = split(lines, tokens=100, packed=False, sharing=4)
    assert own_width(m.token_ids.shape[1], 4) == 8
    assert owners(m, 4).tolist() == [0] * 8 + [1] * 8 + [2] * 3 + [2]
    assert m.most_targets == 8
