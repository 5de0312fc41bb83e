"""Which groups may be trained on: `admit` answers None, or the one reason why not.

Pure. A group is exactly G cleanly graded rollouts of one task from one initial state, sampled under
versions that this learner published and not too long ago. Nothing is repaired, padded or cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from learner.group import Attempt, TakenGroup

LARGEST_REWARD = 1e6
"""A larger one, like NaN, is no grade; times a ratio it would overflow float32."""


class Reason(StrEnum):
    """Why a group is not trained on."""

    WRONG_RUN = "wrong_run"
    WRONG_SIZE = "wrong_size"
    WRONG_SLOTS = "wrong_slots"
    MIXED_TASKS = "mixed_tasks"
    MIXED_STATES = "mixed_states"
    MIXED_FORMATS = "mixed_formats"
    WRONG_SAMPLING = "wrong_sampling"
    NOT_GRADED = "not_graded"
    LENGTHS_DIFFER = "lengths_differ"
    TOO_LONG = "too_long"
    BAD_TOKEN = "bad_token"
    BAD_MASK = "bad_mask"
    BAD_LOGPROB = "bad_logprob"
    BAD_SPANS = "bad_spans"
    ABANDONED_POLICY = "abandoned_policy"
    STALE = "stale"

    @property
    def fate(self) -> str:
        """Label of the metric: stale and abandoned_policy are expected, the rest is bad."""
        expected = self in (Reason.STALE, Reason.ABANDONED_POLICY)
        return self.value if expected else "bad"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    run_id: str
    group_size: int
    max_tokens: int
    vocabulary: int
    staleness: int
    sampling_hash: str
    """Of the recipe, which the engines must have sampled by."""


def admit(group: TakenGroup, rules: Rules, version: int, known: Mapping[int, str]) -> Reason | None:
    """`version` is the learner's own number; `known` maps numbers it published to their hashes."""
    return (
        _shape(group, rules)
        or next((r for a in group.attempts if (r := _attempt(a, rules)) is not None), None)
        or _policy(group, rules, version, known)
    )


def _shape(group: TakenGroup, rules: Rules) -> Reason | None:
    attempts = group.attempts
    if group.run_id != rules.run_id:
        return Reason.WRONG_RUN
    if not group.size == len(attempts) == rules.group_size:
        return Reason.WRONG_SIZE
    if [attempt.slot for attempt in attempts] != list(range(rules.group_size)):
        return Reason.WRONG_SLOTS
    if len({attempt.rollout_id for attempt in attempts}) != rules.group_size:
        return Reason.WRONG_SLOTS
    hashes = {h for a in attempts for h in (a.task_hash, a.verdict_task_hash)} | {group.task_hash}
    if len(hashes) != 1 or "" in hashes:
        return Reason.MIXED_TASKS
    states = {attempt.initial_state_hash for attempt in attempts} | {group.initial_state_hash}
    if len(states) != 1 or "" in states:
        return Reason.MIXED_STATES
    if len({(attempt.renderer_hash, attempt.sampling_hash) for attempt in attempts}) != 1:
        return Reason.MIXED_FORMATS
    if attempts[0].sampling_hash != rules.sampling_hash:
        return Reason.WRONG_SAMPLING
    return None


def _attempt(attempt: Attempt, rules: Rules) -> Reason | None:
    if not attempt.scored_status or not attempt.graded or attempt.reward is None:
        return Reason.NOT_GRADED
    if not abs(attempt.reward) <= LARGEST_REWARD:
        return Reason.NOT_GRADED
    length = len(attempt.token_ids)
    if not length == len(attempt.loss_mask) == len(attempt.logprobs) or length == 0:
        return Reason.LENGTHS_DIFFER
    if length > rules.max_tokens:
        return Reason.TOO_LONG
    if attempt.token_ids.min() < 0 or attempt.token_ids.max() >= rules.vocabulary:
        return Reason.BAD_TOKEN
    # The first token has no context, so nobody can have sampled it.
    if attempt.loss_mask.max() > 1 or attempt.loss_mask[0] != 0:
        return Reason.BAD_MASK
    sampled = attempt.loss_mask == 1
    if not np.isfinite(attempt.logprobs).all() or attempt.logprobs.max() > 1e-4:
        return Reason.BAD_LOGPROB
    if attempt.logprobs[~sampled].any():
        return Reason.BAD_LOGPROB
    return None if _spans_cover(attempt) else Reason.BAD_SPANS


def _spans_cover(attempt: Attempt) -> bool:
    """Spans are in order, do not overlap, and cover exactly the sampled tokens."""
    covered = np.zeros(len(attempt.token_ids), dtype=np.uint8)
    end = 0
    for span in attempt.spans:
        if span.start < end or span.length < 1 or span.start + span.length > len(covered):
            return False
        end = span.start + span.length
        covered[span.start : end] = 1
    return bool((covered == attempt.loss_mask).all())


def _policy(
    group: TakenGroup, rules: Rules, version: int, known: Mapping[int, str]
) -> Reason | None:
    if group.policy_run != rules.run_id or known.get(group.policy_number) != group.policy_hash:
        return Reason.ABANDONED_POLICY
    numbers = {span.number for attempt in group.attempts for span in attempt.spans}
    if not numbers <= known.keys():
        return Reason.ABANDONED_POLICY
    if version - group.oldest_version() > rules.staleness:
        return Reason.STALE
    return None
