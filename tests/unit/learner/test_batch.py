"""Groups become lines: the weight of a token, its advantage, and whether there is a signal."""

from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from tests.support.learner_samples import attempt, group

RECIPE = Algorithm.model_validate(PRESETS["reference"])
ENTROPY = Algorithm.model_validate({"preset": "reference", "entropy_coefficient": 0.1})
DAPO = Algorithm.model_validate({"preset": "dapo"})
PENALTY = Algorithm.model_validate(
    {"preset": "reference", "overlong": "penalty", "overlong_tokens": 3, "overlong_buffer": 2}
)


def test_every_sampled_token_weighs_one_over_all_of_the_update():
    a = group([attempt(0, [1, 2, 3], [0, 1, 1]), attempt(1, [4, 5], [0, 1], reward=0)], "a")
    b = group([attempt(0, [6, 7], [0, 1]), attempt(1, [8, 9], [0, 0], reward=0)], "b")
    batch = make_batch([a, b], RECIPE)
    assert batch.tokens == 4
    assert [line.weight for line in batch.lines] == [0.25, 0.25, 0.25, 0.0]
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
    assert not make_batch([flat], RECIPE).has_signal
    assert make_batch([flat], RECIPE).zero_variance_groups == 1
    assert not make_batch([masked], RECIPE).has_signal
    assert make_batch([masked], RECIPE).tokens == 0
    assert make_batch([masked], RECIPE).lines[0].weight == 0.0


def test_a_bonus_for_entropy_is_a_signal_where_there_is_a_token():
    flat = group([attempt(0, [1, 2], [0, 1]), attempt(1, [3, 4], [0, 1])])
    masked = group([attempt(0, [1, 2], [0, 0]), attempt(1, [3, 4], [0, 0])])
    assert make_batch([flat], ENTROPY).has_signal
    assert not make_batch([masked], ENTROPY).has_signal


def test_a_truncated_rollout_leaves_the_loss_and_its_reward_stays():
    cut = group(
        [
            attempt(0, [1, 2, 3], [0, 1, 1], reward=0, truncated=True),
            attempt(1, [4, 5], [0, 1], reward=1),
        ]
    )
    batch = make_batch([cut], DAPO)
    assert (batch.tokens, batch.masked_tokens, batch.prompt_tokens) == (1, 2, 2)
    assert not batch.lines[0].sampled.any()
    assert batch.lines[1].advantage > 0.7  # ½ over a deviation of √½


def test_the_penalty_changes_advantages_and_not_the_reported_rewards():
    long = group(
        [attempt(0, [1] * 4, [0, 1, 1, 1], reward=1), attempt(1, [4, 5], [0, 1], reward=1)]
    )
    batch = make_batch([long], PENALTY)
    assert batch.rewards == (1, 1)
    assert [line.advantage for line in batch.lines] == [-0.5, 0.5]
    assert batch.advantage_spread == 0.5
    assert batch.zero_variance_groups == 1
