"""One attempt as a row: what the gateway writes and every reported figure is computed from.

`attempts.jsonl` holds one JSON object a line with exactly these keys. (task_id, repetition, attempt)
is the key of a row within a campaign.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from envfarm.errors import ConfigError

INTERFACES = ("tokens", "chat")
"""How the policy was asked: token ids in and out, or an OpenAI-compatible chat endpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRow:
    """Counts are of this attempt; seconds are wall time unless named otherwise."""

    task_id: str
    task_hash: str
    world_hash: str
    tags: dict[str, str]
    """The task's public tags: workflow, failure_mode, split, …"""
    repetition: int
    """From 0; the slot of a group."""
    attempt: int
    """From 1; more after attempts without reward."""
    rollout_id: str
    episode_id: str
    status: str
    """RolloutStatus in lower case: completed, truncated_tokens, failed_env, …"""
    reward: float | None
    """None unless graded."""
    interface: str
    policy_run: str
    policy_numbers: list[int]
    """Every version number that sampled a token, ascending; empty for `chat`."""
    policy_hash: str
    """Weights in service when the attempt began; the model's name for `chat`."""
    renderer_hash: str
    sampling_hash: str
    checks_hash: str
    initial_state_hash: str
    final_state_hash: str
    prompt_tokens: int
    """Tokens that the policy did not sample; for `chat` all prompt tokens that the endpoint counted."""
    sampled_tokens: int
    user_tokens: int
    """Tokens of a simulated user's model, in and out."""
    judge_tokens: int
    turns: int
    tool_calls: int
    tool_errors: int
    seconds: float
    tool_seconds: float
    checks: list[dict[str, Any]]
    """name, kind, passed; in the verdict's order."""
    writes: dict[str, dict[str, int]]
    """Net row changes by table: {"refunds": {"insert": 1}}."""
    error_class: str
    """Class of the failure that left no reward; empty otherwise."""
    boundary: str
    """Where it crossed: env, engine, user, grader, clock."""
    message: str

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, line: str, where: str) -> Self:
        """ConfigError that starts with `where` when the line is no attempt row."""
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{where}: not JSON: {error}") from error
        except RecursionError as error:
            raise ConfigError(f"{where}: not a row: nested too deeply") from error
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: a row is a JSON object")
        known = {field.name for field in fields(cls)}
        for what, names in (("missing", known - set(value)), ("unknown", set(value) - known)):
            if names:
                raise ConfigError(f"{where}: {what} keys: {', '.join(sorted(names))}")
        for field in fields(cls):
            if not _fits(value[field.name], field.name):
                raise ConfigError(f"{where}: {field.name} cannot be {value[field.name]!r}")
        return cls(**value)


_INTEGERS = frozenset(
    "repetition attempt prompt_tokens sampled_tokens user_tokens judge_tokens turns tool_calls"
    " tool_errors".split()
)
_NUMBERS = frozenset({"seconds", "tool_seconds"})
_OTHERS: dict[str, type] = {"tags": dict, "writes": dict, "checks": list, "policy_numbers": list}


def _fits(value: object, name: str) -> bool:
    if name == "reward":
        return value is None or _is_number(value)
    if name in _INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name in _NUMBERS:
        return _is_number(value)
    if name == "interface":
        return value in INTERFACES
    return isinstance(value, _OTHERS.get(name, str))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
