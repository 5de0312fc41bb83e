"""Jobs → groups → attempts: what runs when, and when nothing may start.

Groups of a job start in order. None starts while the learner has too much in front of it: groups
that are published and not delivered, and those that run, count against the cap. Nothing is dropped.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial

from envfarm.errors import EnvfarmError, InvalidArgument, RequestError, StreamError, UnknownTask
from envfarm.v1 import group_pb2, task_pb2
from envfarm_common import logging

from rollout_gateway.group_run import GroupParts, GroupRun
from rollout_gateway.jobs import Job, Jobs, JobSpec, JobState

log = logging.get(__name__)

POLL_SECONDS = 0.2
CANCEL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    concurrency: int
    """Attempts at once."""
    undelivered_groups: int
    undelivered_bytes: int


class Scheduler:
    def __init__(self, parts: GroupParts, jobs: Jobs, caps: Caps):
        self.jobs = jobs
        self._parts, self._caps = parts, caps
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: Counter[str] = Counter()
        self._seated = 0
        self._changed = asyncio.Condition()

    def start(self) -> None:
        """Go on with what a process before this one left."""
        for job in self.jobs:
            if job.state in (JobState.RUNNING, JobState.CANCELLING):
                self._launch(job)

    async def close(self) -> None:
        """Stop where we are; a later `start` goes on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def submit(self, spec: JobSpec) -> Job:
        """Start a job; the same one again is a no-op. Raises InvalidArgument, UnknownTask."""
        spec.check()
        if (known := self.jobs.find(spec.job_id)) is not None:
            if known.spec != spec:
                raise InvalidArgument(
                    f"job {spec.job_id} exists with other contents", hint="choose another job_id"
                )
            return known
        try:
            tasks = await self._parts.rollouts.environment.tasks()
        except RequestError:
            raise
        except EnvfarmError as error:
            log.warning("tasks not checked yet", job_id=spec.job_id, error=error.message)
        else:
            _require(tasks, spec)
        # Another submission of the same id may have come while we asked.
        if self.jobs.find(spec.job_id) is not None:
            return await self.submit(spec)
        job = self.jobs.add(spec)
        self._launch(job)
        return job

    async def cancel(self, job_id: str) -> Job:
        """End a job early: attempts stop, formed groups are still published."""
        job = self.jobs.find(job_id)
        if job is None:
            raise InvalidArgument(f"there is no job {job_id}")
        if job.state is JobState.RUNNING:
            job.move(JobState.CANCELLING, "cancelling")
        if job.state is JobState.CANCELLING:
            try:
                await asyncio.wait_for(job.ended.wait(), CANCEL_SECONDS)
            except TimeoutError:
                pass
        return job

    def _launch(self, job: Job) -> None:
        task = asyncio.create_task(self._run(job))
        self._tasks[job.spec.job_id] = task

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.pop(job.spec.job_id, None)
            if task.cancelled():
                return
            error = task.exception()
            if error is not None:
                log.error("job failed", job_id=job.spec.job_id, exc_info=error)
                try:
                    job.move(JobState.FAILED, _sentence(error))
                except OSError:
                    job.enter(JobState.FAILED, _sentence(error))

        task.add_done_callback(ended)

    async def _run(self, job: Job) -> None:
        tasks = await self._find_tasks(job)
        async with asyncio.TaskGroup() as groups:
            for group_id, task_id in job.spec.groups():
                if group_id in job.record.outcomes:
                    continue
                if not job.stopping.is_set() or job.read_outbox(group_id) is not None:
                    await self._wait_for_version(job)
                    await self._wait_for_learner(job)
                    await self._take_seats(job)
                    run = GroupRun(self._parts, job, group_id, tasks[task_id])
                    groups.create_task(self._group(job, run))
        for group_id, task_id in job.spec.groups():
            if group_id not in job.record.outcomes:
                outcome = group_pb2.GroupOutcome(
                    group_id=group_id,
                    task=tasks[task_id].ref,
                    cancelled=group_pb2.CANCEL_REASON_JOB_CANCELLED,
                )
                await job.on_disk(partial(job.record.add_outcome, outcome))
        end = JobState.CANCELLED if job.stopping.is_set() else JobState.DONE
        await job.on_disk(lambda: job.move(end))

    async def _group(self, job: Job, run: GroupRun) -> None:
        try:
            await run.run()
        finally:
            async with self._changed:
                self._open[job.spec.run_id] -= 1
                self._seated -= job.spec.group_size
                self._changed.notify_all()

    async def _find_tasks(self, job: Job) -> dict[str, task_pb2.Task]:
        while True:
            try:
                tasks = await self._parts.rollouts.environment.tasks()
            except RequestError:  # a wrong token stays wrong
                raise
            except EnvfarmError as error:
                log.warning("no env-server answers", error=error.message)
                with job.waits_for("env"):
                    await asyncio.sleep(1.0)
                continue
            _require(tasks, job.spec)
            return tasks

    async def _wait_for_version(self, job: Job) -> None:
        """Groups for a learner are sampled under its own run's weights only."""
        while not job.stopping.is_set():
            version = self._parts.versions.in_service
            if version is not None and (version.run_id == job.spec.run_id or not job.spec.publish):
                return
            with job.waits_for("engine"):
                await asyncio.sleep(POLL_SECONDS)

    async def _wait_for_learner(self, job: Job) -> None:
        spec, caps = job.spec, self._caps
        while spec.publish and not job.stopping.is_set():
            try:
                backlog = await self._parts.publisher.backlog(spec.run_id, caps.undelivered_groups)
            except StreamError as error:
                log.warning("backlog unknown", run_id=spec.run_id, error=error.message)
            else:
                instruments = self._parts.rollouts.instruments
                instruments.set("envfarm_undelivered_groups", backlog.groups)
                groups = backlog.groups + self._open[spec.run_id]
                if groups < caps.undelivered_groups and backlog.bytes < caps.undelivered_bytes:
                    return
            with job.waits_for("stream"):
                await asyncio.sleep(POLL_SECONDS)

    async def _take_seats(self, job: Job) -> None:
        """One group more than fits may start, so that the last samples of others leave no gap."""
        size = job.spec.group_size
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._seated == 0 or self._seated < self._caps.concurrency
            )
            self._seated += size
            self._open[job.spec.run_id] += 1


def _require(tasks: dict[str, task_pb2.Task], spec: JobSpec) -> None:
    unknown = [task_id for task_id in dict.fromkeys(spec.task_ids) if task_id not in tasks]
    if unknown:
        raise UnknownTask(
            f"job {spec.job_id}: no env-server has {', '.join(unknown[:5])}",
            hint="see `envfarm tasks list`",
        )


def _sentence(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.message if isinstance(error, EnvfarmError) else f"{type(error).__name__}: {error}"
