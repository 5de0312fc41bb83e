"""THE place where the reward is decided. Pure: results of checks in, decision out.

contradiction or a check that cannot run  →  ungradable, no reward
no result at all                          →  ungradable, no reward
every check passed                        →  graded, reward 1
otherwise                                 →  graded, reward 0
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """A check that ran."""

    name: str
    kind: str
    passed: bool
    expected: str
    observed: str
    judge: str = ""
    """Who answered a rubric: model, endpoint and version of the prompt."""
    judge_tokens: int = field(default=0, compare=False)
    """That the answer took, in and out; none when it was known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamVerdict:
    """What the harness that a task comes from makes of the same attempt, by its own rules."""

    harness: str
    result: bool
    reward: float
    is_system_error: bool
    """Its test failed otherwise than by an assertion; `result` says nothing then."""
    detail: str
    """The assertion or the error; empty when the test passed."""
    line: int
    """Of the test's file; 0 where there is none."""


class CannotRun(Exception):
    """A check has no answer: neither passed nor failed. The message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """`reward` is None unless the status is graded; `reason` is empty then."""

    status: Literal["graded", "ungradable"]
    reward: float | None
    reason: str


def decide(results: Sequence[CheckResult], obstacles: Sequence[str]) -> Decision:
    """Combine what the checks found; `obstacles` are contradictions and checks without an answer."""
    if obstacles:
        return Decision(status="ungradable", reward=None, reason="; ".join(obstacles))
    if not results:
        return Decision(status="ungradable", reward=None, reason="no check ran")
    passed = all(result.passed for result in results)
    return Decision(status="graded", reward=1.0 if passed else 0.0, reason="")
