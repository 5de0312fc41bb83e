import pytest

from learner.advantage import centered


def test_half_right_gives_plus_and_minus_one_half():
    assert centered([0, 0, 0, 0, 1, 1, 1, 1]) == [-0.5] * 4 + [0.5] * 4


def test_one_right_of_eight_is_not_scaled_by_the_deviation():
    assert centered([1, 0, 0, 0, 0, 0, 0, 0]) == [0.875] + [-0.125] * 7


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_equal_rewards_give_exact_zeros(reward: float):
    assert centered([reward] * 7) == [0.0] * 7


def test_no_rewards_is_refused():
    with pytest.raises(ValueError, match="without rewards"):
        centered([])
