"""How often scripted agents succeed in a pool of tasks: a pool that rewards one of them is too easy."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from envfarm.errors import EnvfarmError, EvidenceError
from envfarm.v1 import task_pb2

from envfarm_cli.authoring.examiner import REUSE, Examiner
from envfarm_cli.authoring.scripted_agents import AGENTS, AgentName, Run, Values, run_of, values_of
from grader.another_try import with_more_tries
from grader.verdict import Decision

LIMITS: dict[AgentName, float] = {"oracle": 1.0, "lazy": 0.20, "hasty": 0.25, "random": 0.02}
"""Largest share of tasks that an agent may succeed in; the oracle must succeed in all."""


@dataclass(slots=True)
class Tried:
    """One task with every agent."""

    task_id: str
    pool: str
    """train or eval."""
    passed: dict[AgentName, bool] = field(default_factory=dict)
    fault: str = ""
    """Why an attempt has no verdict; a task with a fault counts for no agent."""


@dataclass(frozen=True, slots=True)
class Share:
    """One agent in one pool."""

    pool: str
    agent: AgentName
    passed: int
    tasks: int
    limit: float

    @property
    def share(self) -> float:
        return self.passed / self.tasks if self.tasks else 0.0

    @property
    def ok(self) -> bool:
        if self.agent == "oracle":
            return self.passed == self.tasks
        return self.share <= self.limit


async def try_tasks(
    examiner: Examiner,
    task_ids: Sequence[str],
    *,
    seed: int,
    on_task: Callable[[Tried], None] = lambda _: None,
) -> list[Tried]:
    """Every agent in every task, in the order of the ids; GraderError without an env-server."""
    public = await examiner.tasks()
    values: dict[str, Values] = {}
    by_domain: dict[str, list[str]] = defaultdict(list)
    for task_id in task_ids:
        by_domain[task_id.partition("/")[0]].append(task_id)
    for domain, ids in by_domain.items():
        values[domain] = values_of(map(examiner.checks, ids))

    async def one(task_id: str) -> Tried:
        tried = await _try(examiner, public[task_id], values[task_id.partition("/")[0]], seed)
        on_task(tried)
        return tried

    waiting = iter(enumerate(task_ids))
    found: dict[int, Tried] = {}

    async def work() -> None:
        for place, task_id in waiting:
            found[place] = await one(task_id)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(examiner.at_once, len(task_ids))):
                group.create_task(work())
    except* EnvfarmError as failed:
        raise failed.exceptions[0] from None
    return [found[place] for place in sorted(found)]


def shares(tried: Sequence[Tried]) -> list[Share]:
    """Each agent in each pool, tasks without a fault only."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for task in tried:
        if not task.fault:
            counts[task.pool]["tasks"] += 1
            counts[task.pool].update(agent for agent, passed in task.passed.items() if passed)
    return [
        Share(pool, agent, counts[pool][agent], counts[pool]["tasks"], LIMITS[agent])
        for pool in sorted(counts)
        for agent in AGENTS
    ]


async def _try(examiner: Examiner, task: task_pb2.Task, values: Values, seed: int) -> Tried:
    tried = Tried(task.ref.task_id, task.tags.get("split", ""))
    checks = examiner.checks(task.ref.task_id)
    try:
        # Not while an episode is open, since it takes episodes itself.
        await with_more_tries(lambda: examiner.golden(task))
        for agent in AGENTS:
            run = run_of(agent, task, checks, values, seed)
            decision = await with_more_tries(partial(_attempt, examiner, task, run))
            if decision.reward is None:
                tried.fault = f"{agent}: {decision.reason}"
                return tried
            tried.passed[agent] = decision.reward == 1.0
    except EvidenceError as error:
        tried.fault = error.message
    return tried


async def _attempt(examiner: Examiner, task: task_pb2.Task, run: Run) -> Decision:
    # The golden run itself was played on a new copy; undoing one is quicker.
    async with examiner.episode(task, REUSE) as played:
        for action in run.actions:
            await played.call(action.tool, action.arguments)
        await played.seal()
        return (await examiner.grade(task, played, run.reply)).decision
