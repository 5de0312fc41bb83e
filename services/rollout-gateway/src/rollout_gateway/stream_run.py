"""A job that feeds a learner: groups go on starting until the learner has all that it is owed.

`stream_plan.py` decides; here the plan meets the engines, Redis and the disk. What is on record is
the plan's memory: a process after this one goes on from it.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

from envfarm.errors import ConfigError, EnvfarmError, StreamError
from envfarm.ids import group_id
from envfarm.v1 import group_pb2, task_pb2
from envfarm_common import logging

from rollout_gateway.group_run import GroupParts, GroupRun, versions_of
from rollout_gateway.groups import CancelReason
from rollout_gateway.job_spec import JobSpec
from rollout_gateway.jobs import Job
from rollout_gateway.pool import Parking, Pool, Turn
from rollout_gateway.readiness import POLL_SECONDS, Readiness
from rollout_gateway.stream_plan import Decision, PlanRules, StreamPlan, View

log = logging.get(__name__)

WIRE = group_pb2.CancelReason
UNCLEAN_IN_A_ROW = 10
"""Groups in a row without a clean attempt before a job gives up: something is broken."""
REASONS = {
    Decision.REPLACE: CancelReason.ZERO_VARIANCE,
    Decision.STALE: CancelReason.STALE,
    Decision.SURPLUS: CancelReason.SURPLUS,
}


class StreamRun:
    def __init__(
        self,
        parts: GroupParts,
        readiness: Readiness,
        job: Job,
        tasks: dict[str, task_pb2.Task],
        parking: Parking,
        oversampling: float,
    ):
        self._parts, self._readiness, self._job, self._tasks = parts, readiness, job, tasks
        self._plan = plan_of(job.spec, parts.max_version_spread, parking, oversampling)
        self._changed = asyncio.Condition()
        self._view = View(0, 0, 0)
        self._unclean = 0
        self._running: dict[int, GroupRun] = {}
        self._last_added = asyncio.Event()
        """Of the last group that was let through to the stream."""
        self._last_added.set()

    async def run(self) -> None:
        """Returns when the learner has everything, or the job is stopped and its groups ended."""
        unfinished = self._restore()
        async with asyncio.TaskGroup() as running:
            for turn in unfinished:
                running.create_task(self._group(turn))
            while not self._job.stopping.is_set():
                await self._readiness.version(self._job)
                await self._look()
                for ordinal, decision in self._plan.lost(self._view).items():
                    if ordinal in self._running:
                        self._running[ordinal].give_up(REASONS[decision])
                if await self._is_done():
                    return
                if self._plan.may_start(self._view):
                    await self._readiness.learner(self._job)
                    await self._parts.seats.wait_until_hungry(self._job.spec.job_id)
                    # While we waited, versions came and groups ended.
                    await self._look()
                    if self._plan.may_start(self._view) and not self._job.stopping.is_set():
                        started = asyncio.Event()
                        running.create_task(self._group(self._next(), started))
                        await started.wait()
                        continue
                await self._pause()

    def _next(self) -> Turn:
        turn = self._plan.start(self._view)
        if turn is None:
            reasons = sorted({f"{task}: {why}" for task, why in self._job.parked.items()})
            raise ConfigError(
                f"no task of the pool can run ({'; '.join(reasons[:3])})",
                hint="prove the tasks with `envfarm tasks validate`",
            )
        return turn

    async def _group(self, turn: Turn, started: asyncio.Event | None = None) -> None:
        job, name = self._job, self._id(turn)
        task = self._tasks[job.spec.task_ids[turn.index]]

        async def gate(group: group_pb2.Group) -> CancelReason | None:
            return await self._decide(turn, group)

        run = self._running[turn.ordinal] = GroupRun(
            self._parts, job, name, task, turn.ordinal, gate
        )
        with self._readiness.open_group(job):
            await run.run(started)
        del self._running[turn.ordinal]
        outcome = job.record.outcomes[name]
        async with self._changed:
            self._plan.ended(turn.ordinal, outcome_label(outcome))
            self._tell(outcome)
            self._changed.notify_all()

    async def _decide(self, turn: Turn, group: group_pb2.Group) -> CancelReason | None:
        """Wait for the group's place in the stream; the reason why it is not published, if so."""
        rewards = tuple(rollout.verdict.reward for rollout in group.rollouts)
        oldest = min(min(versions_of(rollout)) for rollout in group.rollouts)
        async with self._changed:
            self._plan.formed(turn.ordinal, rewards, oldest)
            self._changed.notify_all()
            with self._job.waits_for("turn"):
                await self._changed.wait_for(lambda: self._plan.is_turn(turn.ordinal))
        await self._look()
        async with self._changed:
            decision = self._plan.decide(turn.ordinal, self._view)
            self._changed.notify_all()
            run = self._running[turn.ordinal]
            run.view = group_pb2.RunView(**asdict(self._view))
            if decision not in REASONS:
                run.publish_behind(self._last_added)
                self._last_added = run.added
        return REASONS.get(decision)

    def _tell(self, outcome: group_pb2.GroupOutcome) -> None:
        job, plan = self._job, self._plan
        job.replaced, job.filled, job.dropped = plan.replaced, plan.filled, self._view.dropped
        tasks = job.spec.task_ids
        job.parked = {tasks[index]: why for index, why in plan.pool.parked().items()}
        job.bands = {tasks[index]: band for index, band in plan.pool.bands().items()}
        if outcome.cancelled == WIRE.CANCEL_REASON_REFILL_CAP:
            self._unclean += 1
        elif outcome.cancelled != WIRE.CANCEL_REASON_JOB_CANCELLED:
            self._unclean = 0
        if self._unclean >= UNCLEAN_IN_A_ROW:
            raise ConfigError(
                f"{self._unclean} groups in a row had no clean attempt within the cap",
                hint="`envfarm attempts audit` names the boundary; `resume` the job when it is mended",
            )

    async def _look(self) -> None:
        """Bring the view up to date; what Redis does not answer stays as it was."""
        spec, ledger = self._job.spec, self._parts.ledger
        version = self._parts.versions.in_service
        number = version.number if version is not None else self._view.version
        elsewhere, dropped = self._view.elsewhere, self._view.dropped
        recorded = self._job.record.published
        try:
            found = await ledger.dropped(spec.run_id)
            published = await ledger.published(spec.run_id)
        except StreamError as error:
            log.warning("run not seen in Redis", run_id=spec.run_id, error=error.message)
        else:
            dropped = self._own(found)
            # While a group of ours is on its way out, it cannot be told from others'.
            if recorded == self._job.record.published == self._plan.published:
                elsewhere = max(0, published - recorded - (len(found) - dropped))
        self._view = View(number, elsewhere, dropped)
        self._job.dropped = dropped

    def _own(self, dropped: dict[str, str]) -> int:
        if not dropped:
            return 0
        outcomes = self._job.record.outcomes
        ours = {o.published: name for name, o in outcomes.items() if o.published}
        return len({ours.get(key, key) for key in dropped} & set(outcomes))

    async def _is_done(self) -> bool:
        # What was decided counts as published while it is still on its way out, and of that nothing
        # is on record that the learner could have trained.
        if self._running or not self._plan.is_delivered(self._view):
            return False
        if self._plan.is_consumed(self._view):
            return True
        ids = [name for name, o in self._job.record.outcomes.items() if o.published]
        try:
            return await self._parts.ledger.trained(self._job.spec.run_id, ids)
        except StreamError:
            return False

    async def _pause(self) -> None:
        waits_for = "learner" if not self._plan.in_flight else ""
        with self._job.waits_for(waits_for):
            async with self._changed:
                try:
                    await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)
                except TimeoutError:
                    pass

    def _id(self, turn: Turn) -> str:
        return group_id(self._job.spec.job_id, turn.index, turn.number)

    def _restore(self) -> list[Turn]:
        """Tell the plan what is on record; the groups that had no outcome yet."""
        job, unfinished = self._job, list[Turn]()
        names = {*job.record.outcomes, *job.record.groups(), *job.outbox()}
        for turn in sorted(self._turns(names), key=lambda turn: turn.ordinal):
            outcome = job.record.outcomes.get(self._id(turn))
            if outcome is not None:
                self._plan.restore(turn, outcome_label(outcome), tuple(outcome.rewards))
                continue
            self._plan.resume(turn, self._oldest(self._id(turn)))
            unfinished.append(turn)
        job.replaced, job.filled = self._plan.replaced, self._plan.filled
        job.bands = {job.spec.task_ids[i]: band for i, band in self._plan.pool.bands().items()}
        return unfinished

    def _turns(self, names: set[str]) -> Iterator[Turn]:
        for name in names:
            _, index, number = name.rsplit(".", 2)
            place = self._plan.pool.place(int(index), int(number))
            yield Turn(place, int(index), int(number))

    def _oldest(self, name: str) -> int:
        """Version of the oldest clean token of a group that goes on."""
        version = self._parts.versions.in_service
        numbers = [version.number] if version is not None else []
        for attempted in self._job.record.attempts(name):
            if attempted.failure is None:
                numbers += versions_of(attempted.rollout)
        return min(numbers, default=0)


def plan_of(spec: JobSpec, spread: int, parking: Parking, oversampling: float) -> StreamPlan:
    """The plan of a stream, before anything has happened."""
    rules = PlanRules(
        groups_per_update=spec.groups_per_update,
        updates_per_version=spec.updates_per_version,
        staleness=spec.staleness,
        spread=spread,
        updates=spec.updates,
        keep_zero_variance=spec.keep_zero_variance,
        max_replacements=spec.max_replacements,
        oversampling=oversampling,
    )
    return StreamPlan(rules, Pool(len(spec.task_ids), spec.seed, parking, spec.reband_after))


def outcome_label(outcome: group_pb2.GroupOutcome) -> str:
    if outcome.WhichOneof("end") == "published":
        return Decision.PUBLISH
    name = WIRE.Name(outcome.cancelled)
    return name.removeprefix("CANCEL_REASON_").lower()


def sentence(error: BaseException) -> str:
    """What a failed job says of itself."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.message if isinstance(error, EnvfarmError) else f"{type(error).__name__}: {error}"
