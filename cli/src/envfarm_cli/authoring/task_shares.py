"""How a pool of tasks is made up: by workflow, failure mode, split, call skeleton and right end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envfarm_cli.authoring.domain_facts import DomainFacts
from envfarm_cli.authoring.task_text import TaskText


@dataclass(frozen=True, slots=True)
class Shares:
    """Counts over tasks; each sums up to `tasks`, but for `near_misses`."""

    tasks: int
    workflows: dict[str, int]
    failure_modes: dict[str, int]
    splits: dict[str, int]
    skeletons: dict[str, int]
    check_kinds: dict[str, int]
    """Checks by kind."""
    near_misses: int
    changes_nothing: int
    """Tasks whose golden run only reads."""
    one_write: int
    """Tasks whose golden run writes exactly once, an escalation for example."""


def shares(tasks: Sequence[TaskText], facts: Mapping[str, DomainFacts]) -> Shares:
    """The most frequent first, then by name. A tool of a domain without `facts` counts as writing."""
    writes = [sum(writes_rows(tool, task, facts) for tool in task.skeleton) for task in tasks]
    checks = [check for task in tasks for check in task.private.get("checks") or []]
    return Shares(
        tasks=len(tasks),
        workflows=_counted(task.workflow for task in tasks),
        failure_modes=_counted(task.tag("failure_mode") for task in tasks),
        splits=_counted(task.tag("split") for task in tasks),
        skeletons=_counted(" > ".join(task.skeleton) for task in tasks),
        check_kinds=_counted(str(check.get("kind")) for check in checks),
        near_misses=sum(len(task.private.get("near_misses") or []) for task in tasks),
        changes_nothing=sum(count == 0 for count in writes),
        one_write=sum(count == 1 for count in writes),
    )


def writes_rows(tool: str, task: TaskText, facts: Mapping[str, DomainFacts]) -> bool:
    """Whether a tool of the golden run is declared WRITE."""
    known = facts.get(task.domain)
    return known is None or tool in known.writing


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
