"""A full disk under the gateway's state folder holds a job up, says so, and loses nothing."""

import resource
from collections.abc import Callable

import pytest
from envfarm.errors import InternalError

from tests.integration.gateway.conftest import Farm, mixed, wait_until

TASK = "orders/refund-damaged"


async def test_a_job_waits_for_room_on_the_disk_and_goes_on(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    await it.announce()
    it.engine.delay = 1.0
    await it.gateway.submit("job", [TASK], group_size=2)
    wait_until(lambda: len(it.engine.requests) == 2)
    process = it.gateway.process
    assert process is not None
    # No file of the gateway may grow: to it, as good as a full disk.
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))
    it.engine.delay = 0.0
    await it.gateway.until("job", lambda job: job.waiting_for == "disk")
    with pytest.raises(InternalError, match=r"/jobs/other/job\.json: File too large"):
        await it.gateway.submit("other", [TASK], group_size=2)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    job = await it.gateway.done("job")
    assert (job.groups_published, job.refilled_samples) == (1, 0)
    (group,) = it.stream.groups()
    assert [rollout.verdict.reward for rollout in group.rollouts] == [1.0, 0.0]
    await it.gateway.submit("other", [TASK], group_size=2)
    assert (await it.gateway.done("other")).groups_published == 1
