"""What the last evaluation that ended says, for the learning board; reports have the intervals."""

from collections.abc import Iterable
from statistics import fmean

from envfarm.v1 import group_pb2


def shares(outcomes: Iterable[group_pb2.GroupOutcome]) -> dict[str, float]:
    """Share of tasks passed at every attempt (always) and at one at least (ever), and the mean of
    the tasks' pass shares; empty when no task has a reward."""
    rewards: dict[str, list[float]] = {}
    for outcome in outcomes:
        rewards.setdefault(outcome.task.task_id, []).extend(outcome.rewards)
    tasks = [given for given in rewards.values() if given]
    if not tasks:
        return {}
    return {
        "always": fmean(min(given) == 1.0 for given in tasks),
        "ever": fmean(max(given) == 1.0 for given in tasks),
        "mean": fmean(fmean(reward == 1.0 for reward in given) for given in tasks),
    }
