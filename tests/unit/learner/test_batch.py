"""Padding, the one shift, and micro-batches that do not depend on the order of arrival."""

import torch

from learner.batch import make_batch

from .samples import attempt, group


def test_masks_speak_of_the_token_that_a_position_predicts():
    batch = make_batch(
        [
            group(
                [
                    attempt(0, [10, 11, 12, 13], [0, 1, 0, 1], reward=1, logprobs=[0, -2, 0, -3]),
                    attempt(1, [20, 21], [0, 1], reward=0, logprobs=[0, -4]),
                ]
            )
        ],
        100,
    )
    (m,) = batch.micro_batches
    assert m.token_ids.tolist() == [[20, 21, 0, 0], [10, 11, 12, 13]]
    assert m.attention_mask.tolist() == [[1, 1, 0, 0], [1, 1, 1, 1]]
    assert m.targets[1].tolist() == [11, 12, 13]
    assert m.sampled.tolist() == [[True, False, False], [True, False, True]]
    assert m.old_logprobs[m.sampled].tolist() == [-4, -2, -3]
    assert m.advantages[m.sampled].tolist() == [-0.5, 0.5, 0.5]
    assert m.versions.tolist() == [[3, -1, -1], [3, -1, 3]]
    assert batch.tokens == 3


def test_a_micro_batch_never_exceeds_its_padded_size():
    rows = [attempt(i, list(range(i + 2)), [0] + [1] * (i + 1), reward=i % 2) for i in range(8)]
    batch = make_batch([group(rows)], 20)
    assert all(m.token_ids.numel() <= 20 for m in batch.micro_batches)
    assert sum(len(m.token_ids) for m in batch.micro_batches) == 8
    assert batch.tokens == sum(range(1, 9))


def test_the_order_of_groups_does_not_change_the_micro_batches():
    a = group([attempt(0, [1, 2], [0, 1]), attempt(1, [3, 4], [0, 1], reward=0)], "a")
    b = group([attempt(0, [5, 6], [0, 1]), attempt(1, [7, 8], [0, 1], reward=0)], "b")
    one, two = make_batch([a, b], 4), make_batch([b, a], 4)
    for left, right in zip(one.micro_batches, two.micro_batches, strict=True):
        assert torch.equal(left.token_ids, right.token_ids)


def test_a_batch_without_advantage_has_no_signal():
    flat = group([attempt(0, [1, 2], [0, 1]), attempt(1, [3, 4], [0, 1])])
    masked = group(
        [attempt(0, [1, 2], [0, 0], reward=1), attempt(1, [3, 4], [0, 0], reward=0)], "m"
    )
    assert not make_batch([flat], 100).has_signal
    assert make_batch([flat], 100).zero_variance_groups == 1
    assert not make_batch([masked], 100).has_signal
    assert make_batch([masked], 100).tokens == 0
