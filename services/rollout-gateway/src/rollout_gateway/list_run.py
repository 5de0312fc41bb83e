"""A job that owes a list of groups: each starts in order, and each ends once."""

import asyncio
from functools import partial

from envfarm.v1 import group_pb2, task_pb2

from rollout_gateway.group_run import GroupParts, GroupRun
from rollout_gateway.jobs import Job
from rollout_gateway.readiness import Readiness


async def run_list(
    parts: GroupParts, readiness: Readiness, job: Job, tasks: dict[str, task_pb2.Task]
) -> None:
    """Returns when every group has its outcome on record."""
    async with asyncio.TaskGroup() as running:
        for place, (group_id, task_id) in enumerate(job.spec.groups()):
            if group_id in job.record.outcomes:
                continue
            if not job.stopping.is_set() or job.read_outbox(group_id) is not None:
                await readiness.version(job)
                await readiness.learner(job)
                await parts.seats.wait_until_hungry(job.spec.job_id)
                group = GroupRun(parts, job, group_id, tasks[task_id], place)
                started = asyncio.Event()
                running.create_task(_run(readiness, job, group, started))
                await started.wait()
    for group_id, task_id in job.spec.groups():
        if group_id not in job.record.outcomes:
            outcome = group_pb2.GroupOutcome(
                group_id=group_id,
                task=tasks[task_id].ref,
                cancelled=group_pb2.CANCEL_REASON_JOB_CANCELLED,
                ended_at=parts.clock(),
            )
            await job.on_disk(partial(job.record.add_outcome, outcome))


async def _run(readiness: Readiness, job: Job, group: GroupRun, started: asyncio.Event) -> None:
    with readiness.open_group(job):
        await group.run(started)
