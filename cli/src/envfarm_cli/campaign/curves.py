"""What a training run looks like over its updates: read from the learner's and the gateway's files."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow

from envfarm_cli.campaign.files import whole_lines
from envfarm_cli.failure import BadInput

STEP_KEYS = (
    "update",
    "version",
    "loss",
    "reward_mean",
    "zero_variance_share",
    "mismatch_gap",
    "clip_share",
    "grad_norm",
    "tokens",
)


def read_steps(run_dir: Path) -> list[dict[str, Any]]:
    """One line per update of steps.jsonl, the last word on it: after a crash a line may come again."""
    path = run_dir / "steps.jsonl"
    found = {}
    for number, line in enumerate(whole_lines(path), 1):
        try:
            step = json.loads(line)
            found[int(step["update"])] = step
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path}:{number}: no step of a learner: {error}") from error
    return [found[update] for update in sorted(found)]


def curves(steps: list[dict[str, Any]], rows: list[AttemptRow]) -> list[dict[str, Any]]:
    """Per update: the learner's numbers, and what was sampled under the version before it.

    `sampled_reward` is the mean reward of all attempts whose oldest token that version sampled, groups
    that were replaced included; the learner's `reward_mean` is of the groups it trained on.
    `sampled_equal_share` is, of the whole groups of that version, the share whose rewards were all
    equal. Both are None for a version that sampled less than half a batch: of the attempts that
    were on their way when a run ended, only the shortest are known.
    """
    rewards, groups = defaultdict(list), defaultdict(dict)
    versions: dict[str, int] = {}
    for row in rows:
        if row.reward is not None and row.policy_numbers:
            oldest, group = row.policy_numbers[0], row.rollout_id.rpartition(".s")[0]
            rewards[oldest].append(row.reward)
            groups[group][row.repetition] = row.reward
            versions[group] = min(oldest, versions.get(group, oldest))
    size = max(map(len, groups.values()), default=0)
    equal = defaultdict(list)
    for group, of_slots in groups.items():
        if len(of_slots) == size:
            equal[versions[group]].append(len(set(of_slots.values())) == 1)
    result = []
    for step in steps:
        point = {key: step.get(key) for key in STEP_KEYS}
        sampled = rewards.get(step["version"], [])
        whole = equal.get(step["version"], [])
        enough = len(sampled) * 2 >= (step.get("trained_rollouts") or 1)
        point["sampled_reward"] = sum(sampled) / len(sampled) if sampled and enough else None
        point["sampled_equal_share"] = sum(whole) / len(whole) if whole and enough else None
        point["sampled_attempts"] = len(sampled)
        result.append(point)
    return result
