"""The door in front of everything that trains: no task of a public benchmark goes through it."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from envfarm.record_frames import read_rollouts, record_files
from envfarm.v1 import group_pb2, trajectory_pb2

from envfarm_cli.campaign.served import Served, facts
from envfarm_numbers.benchmarks import Benchmarks
from envfarm_numbers.task_facts import TaskFacts, text_hash


def refuse_served(served: Served, tasks: Iterable[str], what: str) -> None:
    """ConfigError when one of these tasks is of a benchmark, by id, content or opening."""
    Benchmarks.known().refuse(facts(served, tasks).values(), what)


def refuse_records(config: dict[str, Any], what: str) -> None:
    """The same for the rollouts that a configuration of supervised training names; entries that are
    no folders are left to the learner, which checks its own configuration."""
    data = config.get("data")
    for entry in data if isinstance(data, list) else []:
        folder = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(folder, str) and Path(folder).exists():
            for path in record_files(Path(folder)):
                Benchmarks.known().refuse(_recorded(path), what)


def _recorded(path: Path) -> Iterator[TaskFacts]:
    seen: set[tuple[str, str, str]] = set()
    for rollout in read_rollouts(path):
        task = rollout.trajectory.task
        key = (task.task_id, task.task_hash, _opening(rollout))
        if key not in seen:
            seen.add(key)
            yield TaskFacts(task_id=key[0], task_hash=key[1], text_hash=text_hash(key[2]))


def _opening(rollout: group_pb2.Rollout) -> str:
    return next(
        (
            turn.text
            for turn in rollout.trajectory.turns
            if turn.kind == trajectory_pb2.TURN_KIND_USER
        ),
        "",
    )
