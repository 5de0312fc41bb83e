"""A killed gateway loses nothing and repeats nothing."""

import asyncio
from collections.abc import Callable

from envfarm.v1 import gateway_service_pb2 as wire

from tests.integration.gateway.conftest import Farm, mixed, wait_until

TASK = "orders/refund-damaged"


async def test_a_killed_gateway_goes_on_with_its_job(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0), concurrency=2)
    await it.announce()
    await it.gateway.submit("job", [TASK], groups_per_task=4, group_size=2)
    await it.gateway.until("job", lambda job: job.groups_published >= 1)
    for _ in range(2):
        it.gateway.kill()
        it.gateway.start()
        before = len(it.engine.requests)
        wait_until(lambda before=before: len(it.engine.requests) > before + 1)
    job = await it.gateway.done("job")
    assert job.state == wire.JOB_STATE_DONE
    assert job.groups_published == 4
    assert sorted(it.stream.ids()) == ["job.0.0", "job.0.1", "job.0.2", "job.0.3"]
    for group in it.stream.groups():
        assert sorted(r.verdict.reward for r in group.rollouts) == [0.0, 1.0]
        assert len({r.episode_id for r in group.rollouts}) == 2


async def test_a_stopped_gateway_leaves_no_episode_and_goes_on_later(
    farm: Callable[..., Farm], env_server
):
    it = farm(mixed(TASK, lambda slot: slot == 0), concurrency=2)
    async with env_server.client() as client:
        before = (await client.capacity()).live_episodes
    await it.announce()
    it.engine.delay = 0.3
    await it.gateway.submit("job", [TASK], groups_per_task=2, group_size=2)
    wait_until(lambda: len(it.engine.requests) >= 2)
    assert it.gateway.stop() == 0
    assert '"level": "error"' not in it.gateway.log()
    async with env_server.client() as client:
        assert (await client.capacity()).live_episodes <= before
    it.engine.delay = 0.0
    it.gateway.start()
    assert (await it.gateway.done("job")).groups_published == 2


async def test_the_record_shows_every_attempt_as_a_conversation(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    await it.announce()
    await it.gateway.submit("job", [TASK], group_size=2)
    await it.gateway.done("job")
    it.gateway.kill()
    it.gateway.start()
    answer = await it.gateway.get("/v1/rollouts/job.0.0.s0.a1")
    body = answer.json()
    assert body["status"] == "completed"
    assert body["reward"] == 1.0
    assert [turn["kind"] for turn in body["turns"]] == ["system", "user"] + [
        "assistant",
        "tool",
    ] * 3 + ["assistant"]
    assert body["turns"][6]["calls"][0]["name"] == "issue_refund"
    assert {change["table"] for change in body["verdict"]["diff"]} == {"refunds", "order_events"}
    listed = (await it.gateway.get("/v1/jobs/job/rollouts")).json()
    assert {row["rollout_id"] for row in listed} == {"job.0.0.s0.a1", "job.0.0.s1.a1"}
    assert (await it.gateway.get("/v1/rollouts/job.0.0.s9.a1")).status_code == 404
    assert (await it.gateway.get("/v1/status", token="wrong")).status_code == 401


async def test_a_cancelled_job_ends_each_group_once(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0), concurrency=2)
    await it.announce()
    it.engine.delay = 0.2
    await it.gateway.submit("job", [TASK], groups_per_task=5, group_size=2)
    wait_until(lambda: len(it.engine.requests) >= 1)
    answer = await it.gateway.call("CancelJob", wire.CancelJobRequest(job_id="job"))
    assert answer.job.state == wire.JOB_STATE_CANCELLED
    assert answer.job.groups_published + answer.job.groups_cancelled == 5
    assert len(it.stream.ids()) == answer.job.groups_published


async def test_groups_already_on_the_stream_are_not_run_again(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    await it.announce()
    it.stream.client.hset("envfarm:run:published", "job.0.0", "1-1")
    await it.gateway.submit("job", [TASK], groups_per_task=2, group_size=2)
    assert (await it.gateway.done("job")).groups_published == 2
    assert it.stream.ids() == ["job.0.1"]


async def test_producers_wait_while_the_learner_has_enough_in_front_of_it(
    farm: Callable[..., Farm],
):
    it = farm(mixed(TASK, lambda slot: slot == 0), undelivered_groups=2)
    await it.announce()
    await it.gateway.submit("job", [TASK], groups_per_task=4, group_size=2)
    job = await it.gateway.until(
        "job", lambda job: job.groups_published == 2 and job.waiting_for == "stream"
    )
    assert job.state == wire.JOB_STATE_RUNNING
    await asyncio.sleep(0.5)
    assert len(it.stream.ids()) == 2
    client = it.stream.client
    client.xgroup_create("envfarm:run:groups", "learner", id="0")
    client.xreadgroup("learner", "me", {"envfarm:run:groups": ">"}, count=1)
    await it.gateway.until("job", lambda job: job.groups_published == 3)
    client.xreadgroup("learner", "me", {"envfarm:run:groups": ">"}, count=9)
    assert (await it.gateway.done("job")).groups_published == 4
