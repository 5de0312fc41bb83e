"""A Redis killed and started again under a job: each group is on the stream once, none is lost."""

import signal
from collections.abc import Callable
from pathlib import Path

import redis
from envfarm_common.binaries import RedisServer

from tests.integration.gateway.conftest import Farm, Stream, mixed

TASK = "orders/refund-damaged"
GROUPS = 6


async def test_groups_that_end_while_redis_is_away_are_published_when_it_is_back(
    farm: Callable[..., Farm], tmp_path: Path
):
    folder = tmp_path / "redis"
    first = RedisServer(folder)
    it = farm(mixed(TASK, lambda slot: slot == 0), redis_url=first.url)
    await it.announce()
    await it.gateway.submit("before", [TASK], group_size=2, groups_per_task=GROUPS // 2)
    assert (await it.gateway.done("before")).groups_published == GROUPS // 2
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    await it.gateway.submit("during", [TASK], group_size=2, groups_per_task=GROUPS // 2)
    await it.gateway.until("during", lambda job: job.waiting_for == "stream")
    with RedisServer(folder, port=first.port, password=first.password) as second:
        job = await it.gateway.done("during")
        assert (job.groups_published, job.refilled_samples, job.groups_cancelled) == (3, 0, 0)
        with redis.Redis.from_url(second.url) as client:
            ids = Stream(client).ids()
    assert sorted(ids) == [
        f"{job}.0.{number}" for job in ("before", "during") for number in range(3)
    ]
