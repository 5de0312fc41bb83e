"""Probing: as many attempts per task as its difficulty band needs, and no more.

After each wave the Jeffreys posterior of every task says whether more runs can still change its band
(envfarm_numbers.probing). Attempts without reward are ours and run again; they never count as failed.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.v1 import gateway_service_pb2, policy_pb2

from envfarm_cli.campaign.evaluation import standing
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.narration import Meter
from envfarm_cli.campaign.waves import Key, Waves
from envfarm_numbers import jeffreys
from envfarm_numbers.probing import Decision, StoppingRule
from envfarm_numbers.rows import FILE_NAME

BUDGET = "budget"
UNREWARDED = "no reward"
EMPTY_ROUNDS = 3
"""Waves in a row that bring a task no reward, after which it is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbePlan:
    """What one probe is."""

    name: str
    tasks: list[str]
    rule: StoppingRule
    at_once: int
    """Attempts of a task in one wave, at least; more cost a few runs and save rounds."""
    budget: int
    """Attempts in all; 0 sets no limit."""
    seed: int
    run_id: str
    policy: policy_pb2.PolicyVersion | None

    @property
    def expected_attempts(self) -> float:
        """What the prior expects, before anything ran."""
        first = max(self.at_once, self.rule.surely_more())
        per_task = max(float(first), self.rule.expected_more())
        return len(self.tasks) * per_task


@dataclass(slots=True)
class Standing:
    """One task so far."""

    passed: int = 0
    clean: int = 0
    excused: int = 0
    """Attempts without reward."""
    asked: int = 0
    """Repetitions that were asked for."""
    open: list[int] = field(default_factory=list)
    """Those of them that have no reward."""
    empty_rounds: int = 0


def probe(plan: ProbePlan, farm: Farm, folder: Path, meter: Meter) -> list[dict[str, Any]]:
    """Run until every task has its band; writes `folder`/attempts.jsonl, gives one record a task."""
    folder.mkdir(parents=True, exist_ok=True)
    waves = Waves(
        folder=folder,
        name=plan.name,
        farm=farm,
        kind=gateway_service_pb2.JOB_KIND_PROBE,
        run_id=plan.run_id,
        seed=plan.seed,
        policy=plan.policy,
    )
    tick = _tick(plan, meter)
    standings = {task: Standing() for task in plan.tasks}
    with waves.saved(folder / FILE_NAME):
        waves.finish(tick)
        while True:
            rows = waves.rows()
            _count(standings, waves, rows)
            keys = next_keys(plan, standings, len(rows))
            if not keys:
                break
            waves.play(keys, tick)
    return [
        {
            "task_id": task,
            "passed": one.passed,
            "clean": one.clean,
            "excused": one.excused,
            "band": jeffreys.band(one.passed, one.clean),
            "stopped": why(plan, one, len(rows)),
        }
        for task, one in standings.items()
    ]


def next_keys(plan: ProbePlan, standings: dict[str, Standing], attempts: int) -> list[Key]:
    """The keys of the next wave; none when every task is settled or the budget is spent."""
    keys: list[Key] = []
    left = plan.budget - attempts if plan.budget else None
    for task, one in standings.items():
        if why(plan, one, attempts):
            continue
        open_now = [(task, number) for number in one.open]
        wanted = max(plan.at_once, plan.rule.surely_more(one.passed, one.clean)) - len(open_now)
        room = plan.rule.cap - one.asked
        fresh = range(one.asked, one.asked + max(0, min(wanted, room)))
        keys += open_now + [(task, number) for number in fresh]
    return keys if left is None else keys[: max(0, left)]


def why(plan: ProbePlan, one: Standing, attempts: int) -> str:
    """Why a task is not run again; empty while it is."""
    decision = plan.rule.decide(one.passed, one.clean)
    if decision is not Decision.MORE:
        return str(decision)
    if one.empty_rounds >= EMPTY_ROUNDS:
        return UNREWARDED
    return BUDGET if plan.budget and attempts >= plan.budget else ""


def _count(standings: dict[str, Standing], waves: Waves, rows: list[AttemptRow]) -> None:
    clean = Counter(row.task_id for row in rows if row.reward is not None)
    passed = Counter(row.task_id for row in rows if row.reward == 1)
    excused = Counter(row.task_id for row in rows if row.reward is None)
    keys = {key for wave in waves.waves for key in wave.keys}
    asked = Counter(task for task, _ in keys)
    unrewarded: dict[str, list[int]] = {task: [] for task in standings}
    for task, number in sorted(waves.open_keys(keys)):
        unrewarded[task].append(number)
    for task, one in standings.items():
        gained = clean[task] - one.clean
        one.empty_rounds = 0 if gained or asked[task] == 0 else one.empty_rounds + 1
        one.passed, one.clean, one.excused = passed[task], clean[task], excused[task]
        one.asked, one.open = asked[task], unrewarded[task]


def _tick(
    plan: ProbePlan, meter: Meter
) -> Callable[[gateway_service_pb2.JobStatus, list[AttemptRow]], None]:
    def tick(job: gateway_service_pb2.JobStatus, rows: list[AttemptRow]) -> None:
        clean = [row for row in rows if row.reward is not None]
        by_task: dict[str, list[float]] = {}
        for row in clean:
            by_task.setdefault(row.task_id, []).append(row.reward or 0.0)
        more = 0.0
        for task in plan.tasks:
            rewards = by_task.get(task, [])
            more += plan.rule.expected_more(int(sum(rewards)), len(rewards))
        meter.at(len(clean), standing(clean, job.waiting_for), total=round(len(clean) + more))

    return tick
