"""Attempt rows for tests of the numbers: plausible ones, and only what matters given."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow

PASSED = ({"name": "final state", "kind": "state", "passed": True},)
FAILED = ({"name": "final state", "kind": "state", "passed": False},)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def row(task_id: str, repetition: int, reward: float | None = 1.0, **changes: Any) -> AttemptRow:
    """A completed attempt; with reward None one that the environment broke."""
    failed = reward is None
    attempt = changes.get("attempt", 1)
    values: dict[str, Any] = {
        "task_id": task_id,
        "task_hash": digest(task_id),
        "world_hash": digest(task_id.partition("/")[0]),
        "tags": {"workflow": "refund", "failure_mode": "wrong_amount", "split": "eval"},
        "repetition": repetition,
        "attempt": attempt,
        "rollout_id": f"{task_id}.{repetition}.a{attempt}",
        "episode_id": f"ep-{task_id}-{repetition}-{attempt}",
        "status": "failed_env" if failed else "completed",
        "reward": reward,
        "interface": "tokens",
        "policy_run": "run",
        "policy_numbers": [0],
        "policy_hash": digest("policy"),
        "renderer_hash": digest("renderer"),
        "sampling_hash": digest("sampling"),
        "checks_hash": "" if failed else digest(f"checks {task_id}"),
        "initial_state_hash": digest("initial"),
        "final_state_hash": "" if failed else digest("final"),
        "prompt_tokens": 1000,
        "sampled_tokens": 200,
        "user_tokens": 0,
        "judge_tokens": 0,
        "turns": 4,
        "tool_calls": 3,
        "tool_errors": 0,
        "seconds": 2.0,
        "tool_seconds": 0.25,
        "checks": [] if failed else list(PASSED if reward else FAILED),
        "writes": {"refunds": {"insert": 1}},
        "error_class": "DatabaseError" if failed else "",
        "boundary": "env" if failed else "",
        "message": "connection lost" if failed else "",
    }
    return AttemptRow(**{**values, **changes})


def rows_of(counts: Mapping[str, tuple[int, int]], **changes: Any) -> list[AttemptRow]:
    """The first `passed` of `clean` repetitions of each task passed."""
    return [
        row(task, repetition, float(repetition < passed), **changes)
        for task, (passed, clean) in counts.items()
        for repetition in range(clean)
    ]


def write_rows(path: Path, rows: Iterable[AttemptRow]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{each.to_json()}\n" for each in rows))
    return path
