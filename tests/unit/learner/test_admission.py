"""Each reason for which a group is refused, one change away from a good group."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from learner.admission import Reason, Rules, admit
from learner.group import Attempt, Span, TakenGroup
from tests.support.learner_samples import SAMPLING, attempt, group

RULES = Rules(
    run_id="run",
    group_size=2,
    max_tokens=8,
    vocabulary=100,
    staleness=1,
    sampling_hash=SAMPLING.hash,
)
KNOWN = {2: "h2", 3: "h3", 4: "h4"}


def good() -> TakenGroup:
    return group(
        [
            attempt(0, [1, 2, 3, 4], [0, 1, 1, 0], reward=1.0),
            attempt(1, [5, 6, 7], [0, 0, 1], reward=0.0),
        ]
    )


def second(**changes) -> Callable[[TakenGroup], TakenGroup]:
    def change(whole: TakenGroup) -> TakenGroup:
        first, other = whole.attempts
        return replace(whole, attempts=(first, replace(other, **changes)))

    return change


def all_of(**changes) -> Callable[[TakenGroup], TakenGroup]:
    return lambda good: replace(
        good, attempts=tuple(replace(each, **changes) for each in good.attempts)
    )


def whole(**changes) -> Callable[[TakenGroup], TakenGroup]:
    return lambda good: replace(good, **changes)


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def bytes_(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint8)


def test_a_good_group_is_admitted():
    assert admit(good(), RULES, 3, KNOWN) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (whole(run_id="other"), Reason.WRONG_RUN),
        (whole(size=3), Reason.WRONG_SIZE),
        (lambda g: replace(g, attempts=g.attempts[:1], size=1), Reason.WRONG_SIZE),
        (lambda g: replace(g, attempts=g.attempts[::-1]), Reason.WRONG_SLOTS),
        (second(slot=0), Reason.WRONG_SLOTS),
        (second(rollout_id="g.s0"), Reason.WRONG_SLOTS),
        (second(task_hash="x"), Reason.MIXED_TASKS),
        (second(verdict_task_hash=""), Reason.MIXED_TASKS),
        (whole(task_hash="x"), Reason.MIXED_TASKS),
        (second(initial_state_hash="x"), Reason.MIXED_STATES),
        (whole(initial_state_hash=""), Reason.MIXED_STATES),
        (second(renderer_hash="x"), Reason.MIXED_FORMATS),
        (second(sampling_hash="x"), Reason.MIXED_FORMATS),
        (all_of(sampling_hash="x"), Reason.WRONG_SAMPLING),
        (second(graded=False), Reason.NOT_GRADED),
        (second(reward=None), Reason.NOT_GRADED),
        (second(reward=float("nan")), Reason.NOT_GRADED),
        (second(reward=float("-inf")), Reason.NOT_GRADED),
        (second(reward=1e300), Reason.NOT_GRADED),
        (second(scored_status=False), Reason.NOT_GRADED),
        (second(loss_mask=bytes_(0, 1)), Reason.LENGTHS_DIFFER),
        (second(logprobs=floats(0, 0, -1, 0)), Reason.LENGTHS_DIFFER),
        (second(token_ids=np.array([5, 6, 100])), Reason.BAD_TOKEN),
        (second(loss_mask=bytes_(0, 0, 2)), Reason.BAD_MASK),
        (second(loss_mask=bytes_(1, 0, 1)), Reason.BAD_MASK),
        (second(logprobs=floats(0, 0, float("-inf"))), Reason.BAD_LOGPROB),
        (second(logprobs=floats(0, 0, float("nan"))), Reason.BAD_LOGPROB),
        (second(logprobs=floats(0, 0, 0.5)), Reason.BAD_LOGPROB),
        (second(logprobs=floats(0, -1, -1)), Reason.BAD_LOGPROB),
        (second(spans=()), Reason.BAD_SPANS),
        (second(spans=(Span(start=1, length=1, number=3),)), Reason.BAD_SPANS),
        (second(spans=(Span(start=2, length=2, number=3),)), Reason.BAD_SPANS),
        (whole(policy_run="other"), Reason.ABANDONED_POLICY),
        (whole(policy_hash="h9"), Reason.ABANDONED_POLICY),
        (whole(policy_number=7), Reason.ABANDONED_POLICY),
        (second(spans=(Span(start=2, length=1, number=7),)), Reason.ABANDONED_POLICY),
    ],
)
def test_one_thing_wrong_is_refused_with_its_reason(change, reason: Reason):
    assert admit(change(good()), RULES, 3, KNOWN) is reason


def test_a_trajectory_over_the_limit_is_refused_and_not_cut():
    long: Attempt = attempt(1, list(range(9)), [0, 0, 0, 0, 0, 0, 0, 0, 1])
    whole_group = replace(good(), attempts=(good().attempts[0], long))
    assert admit(whole_group, RULES, 3, KNOWN) is Reason.TOO_LONG


@pytest.mark.parametrize(("version", "reason"), [(3, None), (4, None), (5, Reason.STALE)])
def test_staleness_counts_from_the_learners_version(version: int, reason: Reason | None):
    assert admit(good(), RULES, version, KNOWN) is reason


def test_staleness_counts_from_the_oldest_token():
    mixed = second(spans=(Span(start=2, length=1, number=2),))(good())
    assert admit(mixed, RULES, 3, KNOWN) is None
    assert admit(mixed, RULES, 4, KNOWN) is Reason.STALE


def test_every_reason_has_a_fate_of_the_metric():
    fates = {reason.fate for reason in Reason}
    assert fates == {"bad", "stale", "abandoned_policy"}
