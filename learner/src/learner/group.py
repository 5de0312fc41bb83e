"""A group as the learner holds it: plain arrays, no wire types."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Tokens [start, start + length) were sampled under policy version `number`."""

    start: int
    length: int
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One rollout. token_ids, loss_mask and logprobs have one length T, or admission refuses it."""

    rollout_id: str
    slot: int
    task_hash: str
    """Of the trajectory."""
    verdict_task_hash: str
    initial_state_hash: str
    """As the grader saw it."""
    renderer_hash: str
    sampling_hash: str
    scored_status: bool
    """completed or truncated_*: a status that carries a reward."""
    truncated: bool
    """truncated_tokens: the policy ran into the limit on tokens."""
    graded: bool
    reward: float | None
    token_ids: NDArray[np.int64]
    loss_mask: NDArray[np.uint8]
    """1 where the policy sampled the token."""
    logprobs: NDArray[np.float32]
    """The engine's, raw, in nats; 0 where the mask is 0."""
    spans: tuple[Span, ...]

    def versions(self) -> NDArray[np.int64]:
        """[T] version number of each sampled token, −1 elsewhere."""
        numbers = np.full(len(self.token_ids), -1, dtype=np.int64)
        for span in self.spans:
            numbers[span.start : span.start + span.length] = span.number
        return numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenGroup:
    group_id: str
    run_id: str
    task_id: str
    task_hash: str
    initial_state_hash: str
    size: int
    policy_run: str
    policy_number: int
    policy_hash: str
    attempts: tuple[Attempt, ...]

    def oldest_version(self) -> int:
        """The oldest version that sampled a token, else the group's own."""
        return min(
            (span.number for attempt in self.attempts for span in attempt.spans),
            default=self.policy_number,
        )

    def rewards(self) -> list[float]:
        return [attempt.reward for attempt in self.attempts if attempt.reward is not None]
