"""What a job waits for before its next group may start: tasks, a policy version, the learner."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from envfarm.errors import ConfigError, EnvfarmError, RequestError, StreamError, UnknownTask
from envfarm.v1 import task_pb2
from envfarm_common import logging

from rollout_gateway.group_run import GroupParts
from rollout_gateway.job_spec import JobSpec
from rollout_gateway.jobs import Job

log = logging.get(__name__)

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    undelivered_groups: int
    undelivered_bytes: int


class Readiness:
    def __init__(self, parts: GroupParts, caps: Caps):
        self._parts, self._caps = parts, caps
        self._open: Counter[str] = Counter()

    async def tasks(self, job: Job) -> dict[str, task_pb2.Task]:
        """Every task by id; waits for an env-server. Raises UnknownTask."""
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
            require_tasks(tasks, job.spec)
            return tasks

    async def version(self, job: Job) -> None:
        """Waits until the engines hold weights under which the job may sample, or it is stopped.

        ConfigError when a job is to be held at a version that is gone.
        """
        spec, versions = job.spec, self._parts.versions
        if spec.interface:
            return
        while not job.stopping.is_set():
            version = versions.in_service
            if spec.policy_number is not None:
                if versions.is_held(spec.job_id):
                    return
                if version is not None and version.run_id == spec.policy_run:
                    if version.number > spec.policy_number:
                        raise ConfigError(
                            f"version {spec.policy_number} of {spec.policy_run} is not in service "
                            f"any more, {version.number} is",
                            hint="submit such a job before its version is announced",
                        )
            elif version is not None and (version.run_id == spec.run_id or not spec.publish):
                return
            with job.waits_for("engine" if version is None else "version"):
                await asyncio.sleep(POLL_SECONDS)

    async def learner(self, job: Job) -> None:
        """Waits while the learner has too much in front of it. Nothing is dropped meanwhile."""
        spec, caps = job.spec, self._caps
        while spec.publish and not job.stopping.is_set():
            try:
                backlog = await self._parts.publisher.backlog(spec.run_id, caps.undelivered_groups)
            except StreamError as error:
                log.warning("backlog unknown", run_id=spec.run_id, error=error.message)
            else:
                groups = backlog.groups + self._open[spec.run_id]
                if groups < caps.undelivered_groups and backlog.bytes < caps.undelivered_bytes:
                    return
            with job.waits_for("stream"):
                await asyncio.sleep(POLL_SECONDS)

    @contextmanager
    def open_group(self, job: Job) -> Iterator[None]:
        """Counts against the cap while a group runs."""
        self._open[job.spec.run_id] += 1
        job.running_groups += 1
        try:
            yield
        finally:
            self._open[job.spec.run_id] -= 1
            job.running_groups -= 1


def require_tasks(tasks: dict[str, task_pb2.Task], spec: JobSpec) -> None:
    """UnknownTask that names what no env-server has."""
    unknown = [task_id for task_id in spec.task_ids if task_id not in tasks]
    if unknown:
        raise UnknownTask(
            f"job {spec.job_id}: no env-server has {', '.join(unknown[:5])}",
            hint="see `envfarm tasks list`",
        )
