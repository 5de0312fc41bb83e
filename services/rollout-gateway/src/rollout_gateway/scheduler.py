"""Which jobs run: submitted, cancelled, resumed, taken up again after a restart.

Each job is a task of its own (`list_run.py`, `stream_run.py`); they share the seats for attempts.
"""

import asyncio
from dataclasses import dataclass

from envfarm.errors import EnvfarmError, InvalidArgument, RequestError
from envfarm.v1 import policy_pb2
from envfarm_common import logging

from rollout_gateway.evaluation_gauge import shares
from rollout_gateway.group_run import GroupParts
from rollout_gateway.job_context import EndRules, write_context
from rollout_gateway.job_spec import JobKind, JobSpec
from rollout_gateway.jobs import ACTIVE, Job, Jobs, JobState
from rollout_gateway.list_run import run_list
from rollout_gateway.pool import Parking
from rollout_gateway.readiness import Caps, Readiness, require_tasks
from rollout_gateway.stream_run import StreamRun, sentence

log = logging.get(__name__)

CANCEL_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamRules:
    """Of every stream; the rest is in its job."""

    parking: Parking
    oversampling: float


class Scheduler:
    def __init__(self, parts: GroupParts, jobs: Jobs, caps: Caps, rules: StreamRules):
        self.jobs = jobs
        self._parts, self._rules = parts, rules
        self._readiness = Readiness(parts, caps)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Go on with what a process before this one left."""
        for job in self.jobs:
            if job.state in ACTIVE:
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
        if spec.publish and self._parts.rollouts.renderer.reasoning == "strip":
            raise InvalidArgument(
                "a learner needs the reasoning in the sequence that it trains on",
                hint="set GATEWAY_REASONING=keep, or submit a job that is not published",
            )
        if spec.interface and self._parts.rollouts.chat is None:
            raise InvalidArgument(
                "this gateway has no chat endpoint",
                hint="set GATEWAY_CHAT_URL and GATEWAY_CHAT_MODEL",
            )
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
            require_tasks(tasks, spec)
        # Another submission of the same id may have come while we asked.
        if self.jobs.find(spec.job_id) is not None:
            return await self.submit(spec)
        job = self.jobs.add(spec)
        self._launch(job)
        return job

    async def cancel(self, job_id: str) -> Job:
        """End a job early: attempts stop, formed groups are still published."""
        job = self.find(job_id)
        if job.state is JobState.RUNNING:
            job.move(JobState.CANCELLING, "cancelling")
        if job.state is JobState.CANCELLING:
            try:
                await asyncio.wait_for(job.ended.wait(), CANCEL_SECONDS)
            except TimeoutError:
                pass
        return job

    async def resume(self, job_id: str) -> Job:
        """Go on with a cancelled or failed job; clean attempts that it has count.

        InvalidArgument when it is done, or still being cancelled.
        """
        job = self.find(job_id)
        if job.state is JobState.DONE:
            raise InvalidArgument(f"job {job_id} is done", hint="submit another job")
        if job.state is JobState.CANCELLING:
            raise InvalidArgument(f"job {job_id} is still being cancelled", hint="try again")
        if job.state is not JobState.RUNNING:
            job.reopen_cancelled()
            job.move(JobState.RUNNING)
            self._launch(job)
        return job

    def find(self, job_id: str) -> Job:
        """InvalidArgument when there is no such job."""
        job = self.jobs.find(job_id)
        if job is None:
            raise InvalidArgument(f"there is no job {job_id}", hint="see /v1/jobs")
        return job

    def _launch(self, job: Job) -> None:
        task = asyncio.create_task(self._run(job))
        self._tasks[job.spec.job_id] = task

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(job.spec.job_id) is task:
                del self._tasks[job.spec.job_id]
            if task.cancelled():
                return
            error = task.exception()
            if error is not None:
                log.error("job failed", job_id=job.spec.job_id, exc_info=error)
                try:
                    job.move(JobState.FAILED, sentence(error))
                except OSError:
                    job.enter(JobState.FAILED, sentence(error))

        task.add_done_callback(ended)

    async def _run(self, job: Job) -> None:
        async with self._parts.versions.hold(job.spec.job_id, _wanted(job.spec)):
            tasks = await self._readiness.tasks(job)
            own = {task_id: tasks[task_id] for task_id in job.spec.task_ids}
            rendering = self._parts.rendering
            rules = self._end_rules()
            await job.on_disk(lambda: write_context(job.folder, rendering, rules, own))
            if job.spec.is_stream:
                stream = StreamRun(
                    self._parts,
                    self._readiness,
                    job,
                    tasks,
                    self._rules.parking,
                    self._rules.oversampling,
                )
                await stream.run()
            else:
                await run_list(self._parts, self._readiness, job, tasks)
        if job.spec.kind is JobKind.EVAL and not job.stopping.is_set():
            instruments = self._parts.rollouts.instruments
            for passed, share in shares(job.record.outcomes.values()).items():
                instruments.set("envfarm_evaluation_share", share, passed=passed)
        end = JobState.CANCELLED if job.stopping.is_set() else JobState.DONE
        await job.on_disk(lambda: job.move(end))

    def _end_rules(self) -> EndRules:
        parts, parking = self._parts, self._rules.parking
        return EndRules(
            attempts_per_slot=parts.attempts_per_slot,
            max_version_spread=parts.max_version_spread,
            park_after=parking.after,
            park_updates=parking.updates,
            task_replacements=parking.per_update,
            oversampling=self._rules.oversampling,
        )


def _wanted(spec: JobSpec) -> policy_pb2.PolicyVersion | None:
    if spec.policy_number is None:
        return None
    return policy_pb2.PolicyVersion(
        run_id=spec.policy_run, number=spec.policy_number, weights_hash=spec.policy_hash
    )
