"""Every formula of the algorithm against values computed by hand."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from learner.algorithm import aggregation, correction, kl, overlong
from learner.algorithm.advantage import advantages
from learner.algorithm.loss import Tokens, share
from learner.algorithm.presets import PRESETS
from learner.algorithm.ratio import line_means, log_ratio
from learner.algorithm.recipe import Algorithm
from learner.algorithm.surrogate import Surrogate, surrogate

LOG2 = math.log(2.0)


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# advantage


def test_half_right_gives_plus_and_minus_one_half():
    assert advantages([0, 0, 0, 0, 1, 1, 1, 1], "centered") == [-0.5] * 4 + [0.5] * 4


def test_one_right_of_eight_is_not_scaled_by_the_deviation():
    assert advantages([1, 0, 0, 0, 0, 0, 0, 0], "centered") == [0.875] + [-0.125] * 7


def test_std_divides_by_the_sample_deviation():
    # Σ(R − ½)² = 2 over 7: s = √(2/7).
    expected = 0.5 / (math.sqrt(2 / 7) + 1e-6)
    assert advantages([0, 0, 0, 0, 1, 1, 1, 1], "std")[-1] == pytest.approx(expected, rel=1e-12)


def test_rloo_compares_with_the_mean_of_the_others():
    assert advantages([1, 0, 0, 1], "rloo") == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])


@pytest.mark.parametrize("kind", ["centered", "std", "rloo"])
@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])
def test_equal_rewards_give_exact_zeros(kind, reward: float):
    assert advantages([reward] * 7, kind) == [0.0] * 7


def test_one_reward_cannot_be_compared():
    with pytest.raises(ValueError, match="at least two"):
        advantages([1.0], "centered")


# surrogate


def at(kind, new: float, old: float, advantage: float, low: float = 0.2, high: float = 0.2):
    log_new = f64(new).requires_grad_()
    made = surrogate(
        kind,
        logprobs=log_new,
        log_ratio=log_ratio(log_new, f64(old)),
        advantages=f64(advantage),
        lines=torch.zeros(1, dtype=torch.long),
        clip_low=low,
        clip_high=high,
    )
    (slope,) = torch.autograd.grad(made.per_token.sum(), log_new)
    return made, float(made.per_token.detach()), float(slope)


@pytest.mark.parametrize(
    ("new", "advantage", "loss", "low", "high"),
    [
        (0.0, 1.0, -1.0, False, False),  # ratio 1
        (LOG2, 1.0, -1.2, False, True),  # ratio 2, good: no reward above 1.2
        (-LOG2, 1.0, -0.5, False, False),  # ratio 1/2, good: pulled back up
        (LOG2, -1.0, 2.0, False, False),  # ratio 2, bad: pushed down in full
        (-LOG2, -1.0, 0.8, True, False),  # ratio 1/2, bad: enough
        (LOG2, 0.0, 0.0, False, False),
    ],
)
def test_ratio_and_clip_by_hand(new: float, advantage: float, loss: float, low: bool, high: bool):
    made, value, slope = at("clipped", new, 0.0, advantage)
    assert value == pytest.approx(loss, abs=1e-12)
    assert (bool(made.clipped_low), bool(made.clipped_high)) == (low, high)
    assert slope == pytest.approx(0.0 if low or high else loss, abs=1e-12)


def test_the_two_clip_bounds_are_not_mixed_up():
    assert at("clipped", LOG2, 0.0, 1.0, low=0.2, high=0.28)[1] == pytest.approx(-1.28)
    assert at("clipped", -LOG2, 0.0, -1.0, low=0.3, high=0.2)[1] == pytest.approx(0.7)


def test_a_huge_log_ratio_stays_finite():
    assert at("clipped", 500.0, 0.0, -1.0)[1] == pytest.approx(math.exp(20))
    assert at("clipped", -500.0, 0.0, 1.0)[1] == pytest.approx(-math.exp(-20))


def test_the_ratio_is_made_in_float32_from_low_precision():
    ratio = log_ratio(torch.tensor([-1.0], dtype=torch.bfloat16), torch.tensor([-1.1]))
    assert ratio.dtype == torch.float32
    assert float(ratio) == pytest.approx(0.1, rel=1e-6)


def test_cispo_weighs_log_probability_with_a_held_ratio_that_has_no_gradient():
    # ratio 8 held at 6: L = −6 · 1 · log π, slope −6; ratio 1/2 is not held from below.
    made, value, slope = at("cispo", -1.0, -1.0 - math.log(8), 1.0, low=1.0, high=5.0)
    assert (value, slope) == (pytest.approx(6.0), pytest.approx(-6.0))
    assert bool(made.clipped_high)
    _, value, slope = at("cispo", -1.0, -1.0 + LOG2, -1.0, low=1.0, high=5.0)
    assert (value, slope) == (pytest.approx(-0.5), pytest.approx(0.5))


def test_gspo_shares_the_geometric_mean_of_a_line():
    # Line 0: log-ratios log 2 and 0, s = √2; line 1: one token with ratio 1.
    new = f64(LOG2, 0.0, 0.0).requires_grad_()
    made: Surrogate = surrogate(
        "gspo",
        logprobs=new,
        log_ratio=log_ratio(new, f64(0, 0, 0)),
        advantages=f64(-1, -1, 1),
        lines=torch.tensor([0, 0, 1]),
        clip_low=0.5,
        clip_high=0.5,
    )
    root = math.sqrt(2)
    assert made.per_token.tolist() == pytest.approx([root, root, -1.0])
    (slope,) = torch.autograd.grad((made.per_token * f64(0.25, 0.25, 0.5)).sum(), new)
    # Σ over line 0 is ½ s A, and each token moves log s by ½.
    assert slope.tolist() == pytest.approx([root / 4, root / 4, -0.5])


# aggregation


def test_weights_of_tokens_by_hand():
    lengths = [3, 1, 0]
    assert aggregation.weights(lengths, "token_mean", 0) == [0.25, 0.25, 0.0]
    assert aggregation.weights(lengths, "sequence_mean", 0) == [1 / 6, 0.5, 0.0]
    assert aggregation.weights(lengths, "constant", 10) == [1 / 30, 1 / 30, 0.0]


@pytest.mark.parametrize("kind", ["token_mean", "sequence_mean", "constant"])
def test_nothing_sampled_weighs_nothing(kind):
    assert aggregation.weights([0, 0], kind, 5) == [0.0, 0.0]
    assert aggregation.weights([], kind, 5) == []


# correction

RHO = f64(math.log(0.25), math.log(2), math.log(4), math.log(0.5))
LINES = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("none", 0.0, 0.0, [1, 1, 1, 1]),
        ("tis", 0.0, 2.0, [0.25, 2, 2, 0.5]),
        ("icepop", 0.5, 2.0, [0, 2, 0, 0.5]),
        # Geometric means: √(¼·2) = 0.707 and √(4·½) = 1.414.
        ("sequence_mask", 0.8, 1.5, [0, 0, 1, 1]),
        ("sequence_mask", 0.7, 1.4, [1, 1, 0, 0]),
    ],
)
def test_importance_weights_by_hand(kind, low: float, high: float, expected: list[float]):
    found = correction.weights(kind, RHO, LINES, low, high)
    assert found.tolist() == pytest.approx(expected)
    assert not found.requires_grad


def test_means_are_taken_within_lines_and_of_nothing_give_nothing():
    assert line_means(f64(1, 3, 5), torch.tensor([0, 0, 1])).tolist() == [2, 2, 5]
    assert line_means(f64(), torch.zeros(0, dtype=torch.long)).tolist() == []


# KL, overlong


@pytest.mark.parametrize(
    ("kind", "value"), [("k1", -LOG2), ("k2", LOG2**2 / 2), ("k3", 2 - 1 - LOG2)]
)
def test_divergence_by_hand(kind, value: float):
    assert float(kl.divergence(kind, f64(-LOG2), f64(0.0))) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_equal_policies_do_not_diverge(kind):
    assert float(kl.divergence(kind, f64(-1.5), f64(-1.5))) == 0.0


@pytest.mark.parametrize(
    ("sampled", "expected"),
    [(0, 0.0), (80, 0.0), (85, -0.25), (90, -0.5), (100, -1.0), (101, -1.0), (900, -1.0)],
)
def test_the_overlong_penalty_falls_over_the_buffer(sampled: int, expected: float):
    assert overlong.penalty(sampled, limit=100, buffer=20) == expected


# the sum


def tokens(advantage: float, engine: list[float]) -> Tokens:
    count = len(engine)
    return Tokens(
        lines=torch.zeros(count, dtype=torch.long),
        weights=f64(*[1.0 / count] * count),
        advantages=f64(*[advantage] * count),
        engine=f64(*engine),
        reference=None,
    )


def algorithm(**changes) -> Algorithm:
    return Algorithm.model_validate({**PRESETS["reference"], **changes})


def test_a_correction_makes_the_plain_policy_gradient_weighed_by_rho():
    new = f64(-1.0, -2.0).requires_grad_()
    recipe = algorithm(correction="tis", correction_high=2.0)
    made = share(recipe, new, f64(0, 0), tokens(1.0, [-1.0 - LOG2, -2.0 - math.log(8)]))
    made.loss.backward()
    assert float(made.loss.detach()) == pytest.approx(-2.0)
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx([-1.0, -1.0])


def test_k1_changes_the_advantage_and_k2_and_k3_the_loss():
    at_engine = {"kl_reference": "engine", "kl_coefficient": 0.5}
    new, known = f64(-1.0), tokens(1.0, [-1.0 - LOG2])  # x = −log 2, r = 2 held at 1.2
    k1 = share(algorithm(kl="k1", **at_engine), new, f64(0), known)
    assert float(k1.loss) == pytest.approx(-1.2 * (1 - 0.5 * LOG2))
    k2 = share(algorithm(kl="k2", **at_engine), new, f64(0), known)
    assert float(k2.loss) == pytest.approx(-1.2 + 0.5 * LOG2**2 / 2)
    k3 = share(algorithm(kl="k3", **at_engine), new, f64(0), known)
    assert float(k3.loss) == pytest.approx(-1.2 + 0.5 * (0.5 - 1 + LOG2))


def test_the_entropy_bonus_is_subtracted():
    made = share(algorithm(entropy_coefficient=0.1), f64(-1.0), f64(3.0), tokens(0.0, [-1.0]))
    assert float(made.loss) == pytest.approx(-0.3)


def test_no_tokens_give_zero_with_a_graph():
    new = torch.ones(3, requires_grad=True)
    known = Tokens(
        lines=torch.zeros(0, dtype=torch.long),
        weights=torch.zeros(0),
        advantages=torch.zeros(0),
        engine=torch.zeros(0),
        reference=None,
    )
    for recipe in (algorithm(), *map(Algorithm.model_validate, PRESETS.values())):
        made = share(recipe, new[:0], torch.zeros(0), known)
        made.loss.backward()
        assert float(made.loss.detach()) == 0.0


# the recipe


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_complete_and_possible(name: str):
    assert Algorithm.model_validate({"preset": name}) == Algorithm.model_validate(PRESETS[name])


def test_what_is_written_wins_over_the_preset():
    assert Algorithm.model_validate({"preset": "dapo", "clip_high": 0.272}).clip_high == 0.272


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"preset": "ppo"}, "no preset 'ppo'"),
        ({"surrogate": "gspo"}, "aggregation must be sequence_mean"),
        ({"clip_low": 1.0}, "only cispo does without"),
        ({"aggregation": "constant"}, "constant_tokens belongs"),
        ({"constant_tokens": 5}, "constant_tokens belongs"),
        ({"correction": "tis"}, "correction_high belongs"),
        ({"correction_high": 2.0}, "correction_high belongs"),
        ({"correction": "icepop", "correction_high": 2.0}, "correction_low belongs"),
        (
            {"correction": "icepop", "correction_high": 2.0, "correction_low": 3.0},
            "correction_low must be below",
        ),
        (
            {"preset": "cispo", "correction": "tis", "correction_high": 2.0},
            "bounds would never act",
        ),
        ({"kl": "k3"}, "go together"),
        ({"kl_coefficient": 0.1}, "go together"),
        (
            {"preset": "gspo", "kl": "k1", "kl_coefficient": 0.1, "kl_reference": "engine"},
            "one ratio for a whole line",
        ),
        ({"overlong": "penalty"}, "belong to the penalty"),
        (
            {"overlong": "penalty", "overlong_tokens": 5, "overlong_buffer": 6},
            "must not exceed",
        ),
    ],
)
def test_an_impossible_combination_is_refused(changes: dict, words: str):
    base = {} if "preset" in changes else PRESETS["reference"]
    with pytest.raises(ValidationError, match=words):
        Algorithm.model_validate({**base, **changes})


def test_a_missing_choice_has_no_default():
    for key in PRESETS["reference"]:
        partial = {k: v for k, v in PRESETS["reference"].items() if k != key}
        with pytest.raises(ValidationError, match=key):
            Algorithm.model_validate(partial)
