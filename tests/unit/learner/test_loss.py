"""The surrogate against values computed by hand."""

import math

import pytest
import torch

from learner.loss import surrogate

LOG2 = math.log(2.0)


def one(new: float, old: float, advantage: float, low: float = 0.2, high: float = 0.2):
    value, clipped = surrogate(
        torch.tensor([new], dtype=torch.float64),
        torch.tensor([old], dtype=torch.float64),
        torch.tensor([advantage], dtype=torch.float64),
        low,
        high,
    )
    return float(value), bool(clipped)


@pytest.mark.parametrize(
    ("new", "advantage", "loss", "clipped"),
    [
        (0.0, 1.0, -1.0, False),  # ratio 1
        (LOG2, 1.0, -1.2, True),  # ratio 2, good: no reward above 1.2
        (-LOG2, 1.0, -0.5, False),  # ratio 1/2, good: pulled back up
        (LOG2, -1.0, 2.0, False),  # ratio 2, bad: pushed down in full
        (-LOG2, -1.0, 0.8, True),  # ratio 1/2, bad: enough
        (LOG2, 0.0, 0.0, False),
    ],
)
def test_ratio_and_clip_by_hand(new: float, advantage: float, loss: float, clipped: bool):
    value, was_clipped = one(new, 0.0, advantage)
    assert value == pytest.approx(loss, abs=1e-12)
    assert was_clipped is clipped


def test_the_two_clip_bounds_are_not_mixed_up():
    assert one(LOG2, 0.0, 1.0, low=0.2, high=0.28)[0] == pytest.approx(-1.28)
    assert one(-LOG2, 0.0, -1.0, low=0.3, high=0.2)[0] == pytest.approx(0.7)


def test_a_huge_log_ratio_stays_finite():
    assert one(500.0, 0.0, -1.0)[0] == pytest.approx(math.exp(20))
    assert one(-500.0, 0.0, 1.0)[0] == pytest.approx(-math.exp(-20))


def test_the_ratio_is_made_in_float32_from_low_precision_inputs():
    value, _ = surrogate(
        torch.tensor([-1.0], dtype=torch.bfloat16),
        torch.tensor([-1.1]),
        torch.tensor([1.0]),
        0.2,
        0.2,
    )
    assert value.dtype == torch.float32
    assert float(value) == pytest.approx(-math.exp(0.1), rel=1e-6)


def test_the_gradient_is_minus_ratio_times_advantage_and_zero_where_clipped():
    new = torch.tensor([math.log(1.1), LOG2], requires_grad=True)
    value, clipped = surrogate(new, torch.zeros(2), torch.ones(2), 0.2, 0.2)
    value.sum().backward()
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([-1.1, 0.0])
    assert clipped.tolist() == [False, True]
