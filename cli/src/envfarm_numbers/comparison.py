"""Campaign B beside campaign A: what changed, how surely, and what makes the comparison doubtful."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.errors import ConfigError

from envfarm_numbers.counts import CampaignCounts, TaskCounts, count
from envfarm_numbers.estimators import Results, results
from envfarm_numbers.failures import expected_writes, failure_counts
from envfarm_numbers.ledger import Ledger, ledger
from envfarm_numbers.paired import Paired, compare
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.rows import Campaign
from envfarm_numbers.usage import usage

DOUBTS = {
    "renderer_hash": "prompts were rendered differently",
    "sampling_hash": "answers were sampled differently",
}


@dataclass(slots=True)
class Side:
    """One of the two campaigns, over the paired tasks."""

    name: str
    rows: list[AttemptRow]
    tasks: list[TaskCounts]
    results: Results
    failures: dict[str, int]
    usage: list[dict[str, Any]]
    ledger: Ledger | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "results": self.results.to_dict(),
            "failures": self.failures,
            "usage": self.usage,
            "cost": self.ledger and self.ledger.to_dict(),
        }


@dataclass(slots=True)
class Comparison:
    """B minus A over the tasks that both have with the same content."""

    a: Side
    b: Side
    paired: Paired
    domains: dict[str, Paired]
    workflows: dict[str, Paired]
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "paired": self.paired.to_dict(),
            "domains": {name: part.to_dict() for name, part in self.domains.items()},
            "workflows": {name: part.to_dict() for name, part in self.workflows.items()},
            "warnings": self.warnings,
            "tasks": [
                {
                    "task_id": a.task_id,
                    "a": {"passed": a.passed, "clean": a.clean},
                    "b": {"passed": b.passed, "clean": b.clean},
                }
                for a, b in zip(self.a.tasks, self.b.tasks, strict=True)
            ],
        }


def compare_campaigns(
    a: Campaign,
    b: Campaign,
    *,
    names: tuple[str, str] = ("A", "B"),
    sheet: PriceSheet | None = None,
    force: bool = False,
) -> Comparison:
    """ConfigError when they have no task in common, or were asked through different interfaces and
    `force` is not given."""
    counts_a, counts_b = count(a), count(b)
    warnings = _interfaces(counts_a, counts_b, force)
    warnings += _identities(counts_a, counts_b)
    shared, remarks = _shared(counts_a.tasks, counts_b.tasks)
    warnings += remarks
    tasks_a = [counts_a.tasks[task] for task in shared]
    tasks_b = [counts_b.tasks[task] for task in shared]
    warnings += _repetitions(tasks_a, tasks_b)
    expected = expected_writes([*a.rows, *b.rows])
    sides = []
    for name, campaign, tasks in ((names[0], a, tasks_a), (names[1], b, tasks_b)):
        chosen = set(shared)
        rows = [row for row in campaign.rows if row.task_id in chosen]
        dependable = sum(task.passed == task.clean for task in tasks)
        sides.append(
            Side(
                name=name,
                rows=rows,
                tasks=tasks,
                results=results(tasks),
                failures=failure_counts(rows, expected),
                usage=usage(rows),
                ledger=ledger(rows, sheet, dependable=dependable) if sheet else None,
            )
        )
    workflow = {row.task_id: row.tags.get("workflow", "") for row in a.rows}
    domain = {task: task.partition("/")[0] for task in shared}
    return Comparison(
        a=sides[0],
        b=sides[1],
        paired=compare(tasks_a, tasks_b),
        domains=_parts(tasks_a, tasks_b, domain),
        workflows=_parts(tasks_a, tasks_b, workflow),
        warnings=warnings,
    )


def _interfaces(a: CampaignCounts, b: CampaignCounts, force: bool) -> list[str]:
    one, other = a.identity["interface"], b.identity["interface"]
    if one == other and len(one) == 1:
        return []
    said = f"{_shown(one)} and {_shown(other)}"
    if not force:
        raise ConfigError(
            f"the campaigns were asked through different interfaces: {said}",
            hint="--force pairs them all the same; prompts, limits and parsing may differ",
        )
    return [f"interfaces differ ({said}): prompts, limits and parsing may differ, too"]


def _identities(a: CampaignCounts, b: CampaignCounts) -> list[str]:
    found = [
        f"{name} differs ({_shown(a.identity[name])} and {_shown(b.identity[name])}): {doubt}"
        for name, doubt in DOUBTS.items()
        if a.identity[name] != b.identity[name]
    ]
    for which, counts in (("A", a), ("B", b)):
        if len(counts.identity["policy_hash"]) > 1:
            found.append(f"{which} mixes policies {_shown(counts.identity['policy_hash'])}")
    if a.identity["policy_hash"] == b.identity["policy_hash"] != set():
        found.append("both campaigns are of the same weights: what differs is chance")
    return found


def _shared(
    a: Mapping[str, TaskCounts], b: Mapping[str, TaskCounts]
) -> tuple[list[str], list[str]]:
    both = sorted(set(a) & set(b))
    changed = [task for task in both if _differs(a[task], b[task], "task_hash")]
    judged = [task for task in both if _differs(a[task], b[task], "checks_hash")]
    empty = [task for task in both if not (a[task].clean and b[task].clean)]
    left_out = set(changed) | set(judged) | set(empty)
    shared = [task for task in both if task not in left_out]
    if not shared:
        raise ConfigError(
            f"no task can be paired: {len(a)} and {len(b)} tasks, {len(both)} in both, "
            f"{len(changed)} of them with other content"
        )
    remarks = [
        f"{len(tasks)} tasks left out: {why}, such as {sorted(tasks)[0]}"
        for tasks, why in (
            (set(a) - set(b), "only A has them"),
            (set(b) - set(a), "only B has them"),
            (changed, "their content differs"),
            (judged, "their checks differ"),
            (empty, "one side has no clean attempt"),
        )
        if tasks
    ]
    return shared, remarks


def _differs(a: TaskCounts, b: TaskCounts, name: str) -> bool:
    one, other = getattr(a, name), getattr(b, name)
    return bool(one and other and one != other)


def _repetitions(a: list[TaskCounts], b: list[TaskCounts]) -> list[str]:
    sizes = [{task.clean for task in side} for side in (a, b)]
    if len(sizes[0] | sizes[1]) == 1:
        return []
    shown = [str(min(size)) if len(size) == 1 else f"{min(size)} to {max(size)}" for size in sizes]
    return [
        f"clean attempts a task: {shown[0]} in A, {shown[1]} in B; k is the smallest, and ever "
        "passed and observed all favour the side with more attempts and with fewer, respectively"
    ]


def _parts(a: list[TaskCounts], b: list[TaskCounts], part: Mapping[str, str]) -> dict[str, Paired]:
    names = sorted({part.get(task.task_id, "") for task in a} - {""})
    found = {}
    for name in names:
        pairs = [(x, y) for x, y in zip(a, b, strict=True) if part.get(x.task_id, "") == name]
        found[name] = compare([x for x, _ in pairs], [y for _, y in pairs])
    return found


def _shown(values: set[str]) -> str:
    return ", ".join(sorted(value[:12] for value in values)) or "unknown"
