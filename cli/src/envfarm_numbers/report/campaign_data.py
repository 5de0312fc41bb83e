"""The JSON of one evaluated campaign: what its report shows, and nothing that it does not say."""

from typing import Any

from envfarm_numbers import jeffreys
from envfarm_numbers.counts import TaskCounts, count
from envfarm_numbers.coverage import bounds, coverage, repetitions_seen
from envfarm_numbers.estimators import by_part, results
from envfarm_numbers.failures import excused_counts, expected_writes, failure_counts
from envfarm_numbers.ledger import ledger
from envfarm_numbers.prices import PriceSheet
from envfarm_numbers.rows import Campaign
from envfarm_numbers.suite import Suite
from envfarm_numbers.usage import statuses, usage


def campaign_data(
    campaign: Campaign,
    *,
    name: str,
    suite: Suite | None = None,
    repetitions: int | None = None,
    sheet: PriceSheet | None = None,
) -> dict[str, Any]:
    """`results` and its parts are None unless every planned attempt has a reward; `bounds` then say
    what the missing ones could change."""
    counts = count(campaign)
    k = repetitions or repetitions_seen(campaign)
    covered = coverage(campaign, k, suite.tasks if suite else None)
    planned = list(suite.tasks) if suite else list(counts.tasks)
    tasks = list(counts.tasks.values())
    tags = {row.task_id: row.tags for row in campaign.rows}
    whole = covered.complete
    workflow = {task: tags[task].get("workflow", "") for task in counts.tasks}
    domain = {task.task_id: task.domain for task in tasks}
    dependable = sum(0 < task.clean == task.passed for task in tasks)
    return {
        "name": name,
        "suite": suite and {"name": suite.name, "hash": suite.hash, "biased": suite.biased},
        "identity": {key: sorted(values) for key, values in counts.identity.items()},
        "coverage": covered.to_dict(),
        "unfinished_lines": campaign.unfinished,
        "results": results(tasks).to_dict() if whole else None,
        "bounds": [bound.to_dict() for bound in bounds(counts.tasks, planned, k)],
        "domains": _parts(tasks, domain) if whole else {},
        "workflows": _parts(tasks, workflow) if whole else {},
        "failures": failure_counts(campaign.rows, expected_writes(campaign.rows)),
        "excused": excused_counts(campaign.rows),
        "statuses": statuses(campaign.rows),
        "usage": usage(campaign.rows),
        "cost": ledger(campaign.rows, sheet, dependable=dependable).to_dict() if sheet else None,
        "tasks": [task_line(task, workflow[task.task_id]) for task in tasks],
    }


def task_line(task: TaskCounts, workflow: str) -> dict[str, Any]:
    """One task with its posterior."""
    low, high = jeffreys.interval(task.passed, task.clean)
    return {
        "task_id": task.task_id,
        "workflow": workflow,
        "passed": task.passed,
        "clean": task.clean,
        "excused": task.excused,
        "rate": task.passed / task.clean if task.clean else None,
        "mean": float(jeffreys.mean(task.passed, task.clean)),
        "low": float(low),
        "high": float(high),
        "band": jeffreys.band(task.passed, task.clean),
    }


def _parts(tasks: list[TaskCounts], part: dict[str, str]) -> dict[str, Any]:
    return {name: found.to_dict() for name, found in by_part(tasks, part).items() if name}
