"""Failures at each boundary: no reward, run again alone, and the group is whole all the same."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from envfarm.errors import FencedError, InvalidArgument, Unauthenticated, UnknownTask
from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import trajectory_pb2

from tests.integration.gateway.conftest import Farm, golden_turns, mixed, wait_until
from tests.support.env_server import EnvServer, start_env_server
from tests.support.policy_server import CUT

TASK = "orders/refund-damaged"
S = trajectory_pb2.RolloutStatus


async def finished(it: Farm, **fields: object) -> wire.JobStatus:
    await it.announce()
    await it.gateway.submit("job", [TASK], group_size=2, **fields)
    return await it.gateway.done("job")


@pytest.mark.parametrize("fault", ["http_500", "disconnect", "short_logprobs", "nan"])
async def test_an_engine_fault_is_run_again_and_earns_no_reward(
    farm: Callable[..., Farm], fault: str
):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    it.engine.faults["job.0.0.s0.a1.t1"] = fault
    job = await finished(it)
    assert (job.groups_published, job.refilled_samples) == (1, 1)
    (group,) = it.stream.groups()
    assert [(r.slot, r.attempt, r.verdict.reward) for r in group.rollouts] == [
        (0, 2, 1.0),
        (1, 1, 0.0),
    ]
    (failed,) = group.failed_attempts
    assert (failed.slot, failed.status, failed.boundary) == (
        0,
        S.ROLLOUT_STATUS_FAILED_ENGINE,
        "engine",
    )
    record = (await it.gateway.get("/v1/rollouts/job.0.0.s0.a1")).json()
    assert (record["status"], record["reward"]) == ("failed_engine", None)
    assert record["verdict"] is None


async def test_wall_time_is_ours_and_earns_nothing(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0), attempt_seconds=2)
    it.engine.faults["job.0.0.s1.a1.t0"] = "hang"
    job = await finished(it)
    assert job.groups_published == 1
    (group,) = it.stream.groups()
    (failed,) = group.failed_attempts
    assert (failed.status, failed.boundary) == (S.ROLLOUT_STATUS_TIMED_OUT, "clock")
    assert it.engine.aborted == ["generate-tokens-job.0.0.s1.a1.t0"]


async def test_past_the_cap_the_group_is_cancelled_with_its_reason(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0), attempts_per_slot=2)
    for attempt in (1, 2):
        it.engine.faults[f"job.0.0.s1.a{attempt}.t0"] = "http_500"
    job = await finished(it)
    assert (job.groups_published, job.groups_cancelled) == (0, 1)
    assert it.stream.ids() == []
    metrics = (await it.gateway.get("/metrics")).text
    assert 'envfarm_groups_total{outcome="refill_cap"} 1.0' in metrics


async def test_a_group_of_equal_rewards_is_cancelled_unless_wanted(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: False))
    job = await finished(it)
    assert (job.groups_published, job.groups_cancelled) == (0, 1)
    await it.gateway.submit("keep", [TASK], group_size=2, keep_zero_variance=True)
    assert (await it.gateway.done("keep")).groups_published == 1
    await it.gateway.submit("probe", [TASK], group_size=2, publish=False)
    job = await it.gateway.done("probe")
    assert (job.groups_recorded, job.groups_published) == (1, 0)
    assert it.stream.ids() == ["keep.0.0"]


async def test_limits_of_the_policy_end_in_truncated_with_a_reward(farm: Callable[..., Farm]):
    call = '<tool_call>{"name": "find_customer", "arguments": {"email": "x"}}</tool_call>'
    turns = {0: "talk on and on" + CUT, 1: call, 2: call * 5, 3: "Good bye."}

    def script(rollout_id: str, turn: int, prompt: str) -> str:
        return turns[int(rollout_id.rsplit(".s", 1)[1].split(".")[0])]

    it = farm(script)
    await it.announce()
    await it.gateway.submit("job", [TASK], group_size=4, keep_zero_variance=True)
    job = await it.gateway.done("job")
    assert job.groups_published == 1, it.gateway.log()[-3000:]
    (group,) = it.stream.groups()
    assert [r.trajectory.status for r in group.rollouts] == [
        S.ROLLOUT_STATUS_TRUNCATED_TOKENS,
        S.ROLLOUT_STATUS_TRUNCATED_TURNS,
        S.ROLLOUT_STATUS_TRUNCATED_CALLS,
        S.ROLLOUT_STATUS_COMPLETED,
    ]
    assert all(r.verdict.HasField("reward") for r in group.rollouts)
    cut = group.rollouts[0].trajectory
    assert cut.final_reply == ""
    ended = it.engine.words
    assert list(cut.token_ids[-2:]) == [ended.turn_end, *ended.plain("\n")]
    assert cut.loss_mask[-3:] == b"\x01\x00\x00"
    calls = [len(t.calls) for t in group.rollouts[2].trajectory.turns if t.calls]
    assert sum(calls) == 16


async def test_a_malformed_call_is_an_observation(farm: Callable[..., Farm]):
    right = golden_turns(TASK)
    wrong = ["<tool_call>{oops</tool_call>", '<tool_call>{"name": "fly"}</tool_call>', *right]

    def script(rollout_id: str, turn: int, prompt: str) -> str:
        turns = wrong if ".s0." in rollout_id else ["Hm."]
        return turns[turn] if turn < len(turns) else "Good bye."

    it = farm(script)
    await finished(it)
    (group,) = it.stream.groups()
    first = group.rollouts[0]
    assert first.verdict.reward == 1.0
    calls = [call for turn in first.trajectory.turns for call in turn.calls]
    assert [call.is_error for call in calls[:2]] == [True, True]
    assert calls[1].content == "There is no tool named fly."


async def test_tokens_given_to_the_engine_are_the_tokens_on_record(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    await finished(it)
    (group,) = it.stream.groups()
    sent = {body["request_id"]: body["token_ids"] for body in it.engine.requests}
    ids = list(group.rollouts[0].trajectory.token_ids)
    prompts = [sent[f"job.0.0.s0.a1.t{turn}"] for turn in range(4)]
    for prompt in prompts:
        assert ids[: len(prompt)] == prompt


async def test_bad_requests_are_refused(farm: Callable[..., Farm]):
    it = farm(mixed(TASK, lambda slot: slot == 0))
    with pytest.raises(Unauthenticated):
        await it.gateway.call("GetStatus", wire.GetStatusRequest(), token="wrong")
    with pytest.raises(UnknownTask, match="orders/none"):
        await it.gateway.submit("job", ["orders/none"])
    with pytest.raises(InvalidArgument, match="job_id"):
        await it.gateway.submit("a/b", [TASK])
    with pytest.raises(InvalidArgument):
        await it.gateway.submit("job", [])
    with pytest.raises(InvalidArgument):
        await it.gateway.call("CancelJob", wire.CancelJobRequest(job_id="none"))
    await it.announce()
    with pytest.raises(FencedError):
        await it.announce(digest="b" * 64)
    await it.gateway.submit("job", [TASK], group_size=2)
    await it.gateway.submit("job", [TASK], group_size=2)
    with pytest.raises(InvalidArgument, match="other contents"):
        await it.gateway.submit("job", [TASK], group_size=4)


@pytest.fixture
def own_env_server(
    domains: Path, env_server: EnvServer, tmp_path: Path
) -> Iterator[Callable[[], EnvServer]]:
    """Each call starts one on the same port, after the one before it was killed."""
    folder, started = tmp_path / "env", list[EnvServer]()
    folder.mkdir(mode=0o755)

    def start() -> EnvServer:
        port = started[0].grpc.rpartition(":")[2] if started else "0"
        server = start_env_server(
            domains,
            folder,
            grpc_port=port,
            infra_token=env_server.infra_token,
            grader_token=env_server.grader_token,
        )
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


def kill(server: EnvServer) -> None:
    server.process.kill()
    server.process.wait()


async def test_attempts_of_a_killed_env_server_run_again_when_it_is_back(
    farm: Callable[..., Farm], own_env_server: Callable[[], EnvServer]
):
    first = own_env_server()
    it = farm(mixed(TASK, lambda slot: slot == 0), env_servers=first.grpc)
    await it.announce()
    it.engine.delay = 2.0
    await it.gateway.submit("job", [TASK], group_size=2)
    # Both episodes are open, and both conversations wait for the engine.
    wait_until(lambda: len(it.engine.requests) == 2)
    kill(first)
    it.engine.delay = 0.0
    await it.gateway.until("job", lambda job: job.refilled_samples == 2)
    await it.gateway.until("job", lambda job: job.waiting_for == "env")
    own_env_server()
    assert (await it.gateway.done("job")).groups_published == 1
    (group,) = it.stream.groups()
    assert [rollout.verdict.reward for rollout in group.rollouts] == [1.0, 0.0]
    assert [failed.status for failed in group.failed_attempts] == [S.ROLLOUT_STATUS_FAILED_ENV] * 2


async def test_an_open_that_finds_no_server_waits_and_fails_nobody(
    farm: Callable[..., Farm], own_env_server: Callable[[], EnvServer]
):
    first = own_env_server()
    it = farm(mixed(TASK, lambda slot: slot == 0), env_servers=first.grpc)
    await it.gateway.submit("job", [TASK], group_size=2)
    # The job knows its tasks and waits for a version; the server answers no open.
    await it.gateway.until("job", lambda job: job.waiting_for == "engine")
    first.process.send_signal(signal.SIGSTOP)
    await it.announce()
    await it.gateway.until("job", lambda job: job.rollouts_running == 2)
    kill(first)
    job = await it.gateway.until("job", lambda job: job.waiting_for == "env")
    assert job.refilled_samples == 0
    own_env_server()
    job = await it.gateway.done("job")
    assert (job.groups_published, job.refilled_samples) == (1, 0)


async def test_a_lost_grader_is_a_grader_failure_and_never_a_zero(farm: Callable[..., Farm]):
    it = farm(
        mixed(TASK, lambda slot: slot == 0),
        grader="127.0.0.1:9",
        grade_seconds=0.5,
        attempts_per_slot=1,
    )
    job = await finished(it)
    assert job.groups_cancelled == 1
    rows = (await it.gateway.get("/v1/jobs/job/rollouts")).json()
    assert {row["status"] for row in rows} <= {"failed_grader", "cancelled"}
    assert all(row["reward"] is None for row in rows)
