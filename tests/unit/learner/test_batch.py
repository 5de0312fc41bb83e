"""Groups become lines: the weight of a token, its advantage, and whether there is a signal."""

import pytest

from learner.batch import make_batch

from .samples import attempt, group


def test_every_sampled_token_weighs_one_over_all_of_the_update():
    a = group([attempt(0, [1, 2, 3], [0, 1, 1]), attempt(1, [4, 5], [0, 1], reward=0)], "a")
    b = group([attempt(0, [6, 7], [0, 1]), attempt(1, [8, 9], [0, 0], reward=0)], "b")
    batch = make_batch([a, b])
    assert batch.tokens == 4
    assert [line.weight for line in batch.lines] == [0.25] * 4
    assert [line.advantage for line in batch.lines] == [0.5, -0.5, 0.5, -0.5]
    assert batch.lines[0].sampled.tolist() == [False, True, True]
    assert batch.lines[0].versions.tolist() == [-1, 3, 3]
    assert (batch.rewards, batch.groups) == ((1.0, 0, 1.0, 0), 2)
    assert len({line.key for line in batch.lines}) == 4


def test_a_batch_without_advantage_has_no_signal():
    flat = group([attempt(0, [1, 2], [0, 1]), attempt(1, [3, 4], [0, 1])])
    masked = group(
        [attempt(0, [1, 2], [0, 0], reward=1), attempt(1, [3, 4], [0, 0], reward=0)], "m"
    )
    assert not make_batch([flat]).has_signal
    assert make_batch([flat]).zero_variance_groups == 1
    assert not make_batch([masked]).has_signal
    assert make_batch([masked]).tokens == 0
    assert make_batch([masked]).lines[0].weight == pytest.approx(1.0)
