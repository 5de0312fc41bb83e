"""A training job delivers what the learner is owed, whatever becomes of single groups."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from envfarm.attempt_row import AttemptRow
from envfarm.errors import InvalidArgument
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import policy_pb2

from rollout_gateway.pool import Parking, Pool
from tests.integration.gateway.conftest import TASKS, Farm, golden_turns, wait_until
from tests.integration.gateway.learner_stand_in import LearnerStandIn
from tests.support.gateway_process import INFRA_TOKEN

REFUND, CANCEL = TASKS
STREAM = {"groups_per_task": 0, "groups_per_update": 2, "group_size": 2, "seed": 5}


def playing(right: Callable[[str, int, int], bool]):
    """`right(task, group number, slot)` decides whether the attempt plays the golden turns."""
    turns = {index: golden_turns(task) for index, task in enumerate(TASKS)}

    def script(rollout_id: str, turn: int, prompt: str) -> str:
        group, _, rest = rollout_id.rpartition(".s")
        _, index, number = group.rsplit(".", 2)
        if not right(TASKS[int(index)], int(number), int(rest.split(".")[0])):
            return "Good day."
        golden = turns[int(index)]
        return golden[turn] if turn < len(golden) else "Good bye."

    return script


async def run_to_the_end(it: Farm, learner: LearnerStandIn, job_id: str = "job") -> wire.JobStatus:
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        job = await it.gateway.job(job_id)
        if job.state != wire.JOB_STATE_RUNNING:
            return job
        assert asyncio.get_running_loop().time() < deadline, (job, it.gateway.log()[-3000:])
        if not await learner.train():
            await asyncio.sleep(0.05)


async def test_a_stream_feeds_three_updates_and_nothing_is_refused(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0))
    learner = LearnerStandIn(it, per_update=2)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=3, **STREAM)
    # No more than two updates are sampled under version 0.
    job = await it.gateway.until("job", lambda job: job.groups_published == 4)
    await asyncio.sleep(0.5)
    assert (await it.gateway.job("job")).groups_published == 4
    job = await run_to_the_end(it, learner)
    assert job.state == wire.JOB_STATE_DONE
    assert (job.groups_published, job.groups_total, job.groups_cancelled) == (6, 6, 0)
    assert (len(learner.trained), learner.refused) == (6, [])
    assert learner.version == 3
    # Each pass has both tasks, in the order that the seed fixes; ids are made of task and pass.
    pool = Pool(2, STREAM["seed"], Parking())
    assert [group.group_id for group in learner.trained] == [
        f"job.{index}.{number}" for number in (0, 1, 2) for index in pool.order(number)
    ]


async def test_every_attempt_is_a_row(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0))
    await it.announce()
    it.engine.faults["job.0.0.s0.a1.t1"] = "http_500"
    await it.gateway.submit("job", [REFUND], group_size=2, groups_per_task=2)
    await it.gateway.done("job")
    text = (await it.gateway.get("/v1/jobs/job/attempts")).text
    rows = [AttemptRow.from_json(line, "here") for line in text.splitlines()]
    by_id = {row.rollout_id: row for row in rows}
    assert len(rows) == len(by_id) == 5
    failed, clean = by_id["job.0.0.s0.a1"], by_id["job.0.0.s0.a2"]
    assert (failed.status, failed.reward, failed.boundary) == ("failed_engine", None, "engine")
    assert failed.error_class == "EngineError" and "500" in failed.message
    assert (clean.status, clean.reward, clean.attempt) == ("completed", 1.0, 2)
    assert clean.tags["workflow"] and len(clean.world_hash) == 64
    assert (clean.policy_run, clean.policy_numbers, clean.policy_hash) == ("run", [3], "a" * 64)
    assert clean.tool_calls == 3 and clean.turns == 4
    assert clean.writes["refunds"] == {"insert": 1}
    assert clean.initial_state_hash and clean.final_state_hash and clean.checks_hash
    assert all(check["passed"] for check in clean.checks)
    assert {row.repetition for row in rows} == {0, 1, 2, 3}


async def test_groups_of_equal_rewards_are_replaced_and_recorded(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0 or task == CANCEL))
    learner = LearnerStandIn(it, per_update=2)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=2, **STREAM)
    job = await run_to_the_end(it, learner)
    assert job.state == wire.JOB_STATE_DONE
    assert (job.groups_published, len(learner.trained)) == (4, 4)
    assert {group.task.task_id for group in learner.trained} == {REFUND}
    assert job.replaced_zero_variance >= 1
    groups = (await it.gateway.get("/v1/jobs/job/groups")).json()
    replaced = [group for group in groups if group["end"] == "zero_variance"]
    assert len(replaced) == job.replaced_zero_variance == job.cancelled["zero_variance"]
    assert all(group["rewards"] == [1.0, 1.0] for group in replaced)


async def test_a_hopeless_pool_still_feeds_the_learner(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: False))
    learner = LearnerStandIn(it, per_update=2)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=2, max_replacements=1, **STREAM)
    job = await run_to_the_end(it, learner)
    assert (job.state, learner.version) == (wire.JOB_STATE_DONE, 2)
    assert (job.replaced_zero_variance, job.filled_zero_variance) == (2, 4)


async def test_what_the_learner_could_not_use_is_delivered_again(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0))
    learner = LearnerStandIn(it, per_update=2)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=1, **STREAM)
    await it.gateway.until("job", lambda job: job.groups_published == 2)
    assert (await it.gateway.until("job", lambda j: j.waiting_for == "learner")).state == (
        wire.JOB_STATE_RUNNING
    )
    learner.take()
    lost = learner._taken.pop()
    learner.refuse(lost.group_id, "abandoned_policy")
    job = await run_to_the_end(it, learner)
    assert (job.state, job.groups_dropped, job.groups_published) == (wire.JOB_STATE_DONE, 1, 3)
    assert len(learner.trained) == 2


async def test_a_killed_gateway_goes_on_with_its_stream(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0), concurrency=2)
    learner = LearnerStandIn(it, per_update=2)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=4, **STREAM)
    for update in range(3):
        await it.gateway.until("job", lambda job, n=update: job.groups_published > 2 * n)
        it.gateway.kill()
        it.gateway.start()
        while not await learner.train():
            await asyncio.sleep(0.05)
    job = await run_to_the_end(it, learner)
    assert (job.state, job.groups_published) == (wire.JOB_STATE_DONE, 8)
    assert len({group.group_id for group in learner.trained}) == 8
    assert learner.refused == []
    text = (await it.gateway.get("/v1/jobs/job/attempts")).text
    rows = [AttemptRow.from_json(line, "here").rollout_id for line in text.splitlines()]
    listed = (await it.gateway.get("/v1/jobs/job/rollouts")).json()
    assert sorted(rows) == sorted(row["rollout_id"] for row in listed)


async def test_an_evaluation_keeps_its_version_while_training_goes_on(farm: Callable[..., Farm]):
    it = farm(playing(lambda task, number, slot: slot == 0))
    learner = LearnerStandIn(it, per_update=2)
    pinned = policy_pb2.PolicyVersion(run_id="run", number=1)
    fields = {"kind": wire.JOB_KIND_EVAL, "publish": False, "group_size": 3, "policy": pinned}
    await it.gateway.submit("eval", list(TASKS), **fields)
    await learner.announce()
    await it.gateway.until("eval", lambda job: job.waiting_for == "version")
    await it.gateway.submit("job", list(TASKS), updates=3, **STREAM)
    it.engine.delay = 0.1
    job = await run_to_the_end(it, learner)
    evaluation = await it.gateway.done("eval")
    assert (job.state, evaluation.state) == (wire.JOB_STATE_DONE, wire.JOB_STATE_DONE)
    text = (await it.gateway.get("/v1/jobs/eval/attempts")).text
    rows = [AttemptRow.from_json(line, "here") for line in text.splitlines()]
    assert len(rows) == 6
    assert {tuple(row.policy_numbers) for row in rows} == {(1,)}
    assert {row.policy_hash for row in rows} == {learner.digest(1)}
    # Once it has passed, a version cannot be asked for any more.
    await it.gateway.submit("late", list(TASKS), **fields)
    late = await it.gateway.done("late")
    assert late.state == wire.JOB_STATE_FAILED
    assert "not in service any more" in late.message


async def sse(it: Farm, job_id: str, **headers: str) -> AsyncIterator[tuple[str, dict]]:
    headers["Authorization"] = f"Bearer {INFRA_TOKEN}"
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        url = f"{it.gateway.http}/v1/jobs/{job_id}/events"
        async with client.stream("GET", url, headers=headers) as answer:
            kind = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield kind, json.loads(line.removeprefix("data: "))


async def test_a_job_over_http_is_submitted_watched_cancelled_and_resumed(
    farm: Callable[..., Farm],
):
    it = farm(playing(lambda task, number, slot: slot == 0), concurrency=2)
    await it.announce()
    it.engine.delay = 0.1
    body = {"job_id": "job", "run_id": "run", "kind": "probe", "task_ids": list(TASKS)}
    body |= {"groups_per_task": 3, "group_size": 2, "slot_mode": "fresh"}
    client = httpx.AsyncClient(
        base_url=it.gateway.http,
        trust_env=False,
        timeout=30,
        headers={"Authorization": f"Bearer {INFRA_TOKEN}"},
    )
    async with client:
        answer = await client.post("/v1/jobs", json=body)
        assert answer.status_code == 201
        assert answer.json()["groups_total"] == 6
        refused = await client.post("/v1/jobs", json={**body, "job": "x"})
        assert refused.status_code == 422 and "no field named" in refused.json()["detail"]
        assert (await client.get("/v1/jobs/none")).status_code == 404
        seen = []
        async for kind, data in sse(it, "job"):
            seen.append((kind, data))
            if kind == "group":
                break
        assert seen[0][0] == "status" and seen[0][1]["state"] == "JOB_STATE_RUNNING"
        cancelled = (await client.post("/v1/jobs/job/cancel")).json()
        assert cancelled["state"] == "JOB_STATE_CANCELLED"
        assert cancelled["cancelled"]["job_cancelled"] == cancelled["groups_cancelled"] > 0
        it.engine.delay = 0.0
        resumed = (await client.post("/v1/jobs/job/resume")).json()
        assert resumed["state"] == "JOB_STATE_RUNNING"
        rest = [event async for event in sse(it, "job")]
        assert rest[-1][0] == "end"
        assert rest[-1][1]["state"] == "JOB_STATE_DONE"
        assert rest[-1][1]["groups_recorded"] == 6
        groups = [data["group_id"] for kind, data in rest if kind == "group"]
        assert len(set(groups)) == 6
        again = await client.post("/v1/jobs/job/resume")
        assert again.status_code == 422 and "is done" in again.json()["detail"]


IMPOSSIBLE: list[tuple[dict[str, object], str]] = [
    ({"publish": False, "kind": wire.JOB_KIND_EVAL, "groups_per_update": 2}, "kind train"),
    ({"groups_per_update": 2}, "leave groups_per_task out"),
    ({"groups_per_task": 0}, "needs groups_per_task"),
    ({"groups_per_task": 0, "groups_per_update": 2, "staleness": 5}, "0 to 4"),
    ({"updates": 3}, "belongs to a stream"),
    ({"publish": True, "kind": wire.JOB_KIND_PROBE}, "only a job of kind train"),
]


async def test_jobs_that_cannot_be_are_refused(farm: Callable[..., Farm]):
    it = farm(lambda rollout_id, turn, prompt: "Good day.")
    for fields, message in IMPOSSIBLE:
        with pytest.raises(InvalidArgument, match=message):
            await it.gateway.submit("bad", list(TASKS), **fields)


async def test_the_smallest_caps_that_are_legal_deadlock_nothing(farm: Callable[..., Farm]):
    it = farm(
        playing(lambda task, number, slot: slot == 0),
        concurrency=1,
        least_concurrency=1,
        undelivered_groups=1,
        undelivered_bytes=1,
    )
    learner = LearnerStandIn(it, per_update=2, staleness=0)
    await learner.announce()
    await it.gateway.submit("job", list(TASKS), updates=2, staleness=0, **STREAM)
    job = await run_to_the_end(it, learner)
    assert (job.state, job.groups_published) == (wire.JOB_STATE_DONE, 4)
    assert (len(learner.trained), learner.refused) == (4, [])


async def test_a_cancel_frees_engine_and_environment_at_once(farm: Callable[..., Farm], env_server):
    it = farm(playing(lambda task, number, slot: True))
    await it.announce(number=3)
    async with env_server.client() as client:
        before = (await client.capacity()).live_episodes
        it.engine.delay = 60.0
        await it.gateway.submit("job", list(TASKS), groups_per_task=1, group_size=3, publish=False)
        await it.gateway.until("job", lambda job: job.rollouts_running == 6)
        wait_until(lambda: len(it.engine.requests) == 6)
        started = time.monotonic()
        answer = await it.gateway.call("CancelJob", wire.CancelJobRequest(job_id="job"))
        seconds = time.monotonic() - started
        it.engine.delay = 0.0
        assert answer.job.state == wire.JOB_STATE_CANCELLED
        assert len(it.engine.aborted) == 6
        assert (await client.capacity()).live_episodes <= before
    # A second when the machine is its own; here others share it.
    assert seconds < 3.0
    assert answer.job.cancelled == {"job_cancelled": 2}
