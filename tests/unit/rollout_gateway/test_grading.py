"""The grader's answers: what is a verdict, what is a failure, what is asked again. Over a real gRPC
server whose answers are canned."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from envfarm.errors import (
    ConfigError,
    EnvfarmError,
    EvidenceError,
    GraderError,
    LeaseExpired,
    NoChecks,
    Unauthenticated,
)
from envfarm.v1 import grader_service_pb2 as wire
from envfarm.v1 import task_pb2, verdict_pb2
from envfarm.v1.grader_service_pb2_grpc import (
    GraderServiceServicer,
    add_GraderServiceServicer_to_server,
)
from envfarm_common.grpc import authorization, serve

from rollout_gateway.grading import Grader

TASK = task_pb2.TaskRef(task_id="orders/a", task_hash="t" * 64)
Answer = Callable[[wire.GradeRequest, Any], Awaitable[verdict_pb2.Verdict]]


def good(**change: Any) -> verdict_pb2.Verdict:
    fields = {
        "request_id": "r",
        "task": TASK,
        "status": verdict_pb2.VERDICT_STATUS_GRADED,
        "reward": 0.0,
    }
    return verdict_pb2.Verdict(**{k: v for k, v in (fields | change).items() if v is not None})


class Canned(GraderServiceServicer):
    def __init__(self, answer: Answer):
        self._answer = answer
        self.requests: list[wire.GradeRequest] = []

    async def Grade(self, request: wire.GradeRequest, context: Any) -> wire.GradeResponse:
        assert authorization(context) == "Bearer token"
        self.requests.append(request)
        return wire.GradeResponse(verdict=await self._answer(request, context))


async def ask(grader: Grader) -> verdict_pb2.Verdict:
    return await grader.grade(
        request_id="r", task=TASK, env_server="e:1", episode_id="ep-1", final_reply="Done."
    )


async def grade(answer: Answer, seconds: float = 5.0) -> tuple[verdict_pb2.Verdict, Canned]:
    canned = Canned(answer)
    server, port = await serve(
        "127.0.0.1:0", lambda s: add_GraderServiceServicer_to_server(canned, s)
    )
    grader = Grader(f"127.0.0.1:{port}", "token", seconds)
    try:
        return await ask(grader), canned
    finally:
        await grader.close()
        await server.stop(None)


async def test_a_graded_verdict_may_be_zero():
    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        return good()

    verdict, canned = await grade(answer)
    assert verdict.HasField("reward")
    assert verdict.reward == 0.0
    assert canned.requests == [
        wire.GradeRequest(
            request_id="r",
            task=TASK,
            episode=wire.EpisodeReference(env_server="e:1", episode_id="ep-1"),
            final_reply="Done.",
        )
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"status": verdict_pb2.VERDICT_STATUS_UNGRADABLE, "ungradable_reason": "torn"},
            "ungradable: torn",
        ),
        ({"reward": None}, "without status or reward"),
        ({"status": verdict_pb2.VERDICT_STATUS_UNSPECIFIED}, "without status or reward"),
        ({"reward": float("nan")}, "reward nan"),
        ({"request_id": "other"}, "another request"),
        ({"task": task_pb2.TaskRef(task_id="orders/b", task_hash="t" * 64)}, "another request"),
    ],
)
async def test_anything_less_than_a_verdict_is_a_failure(change: dict[str, Any], message: str):
    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        return good(**change)

    with pytest.raises(GraderError, match=message):
        await grade(answer)


@pytest.mark.parametrize(
    "error",
    [
        NoChecks("no checks for orders/a", hint="run ingest"),
        EvidenceError("torn"),
        GraderError("the env-server is out of reach"),
        ConfigError("the env-server refuses the grader's token"),
        Unauthenticated("not known here"),
        LeaseExpired("gone"),
    ],
)
async def test_the_graders_own_error_comes_as_it_was_raised_and_is_not_asked_again(
    error: EnvfarmError,
):
    asked: list[str] = []

    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        asked.append(request.request_id)
        raise error

    with pytest.raises(type(error)) as raised:
        await grade(answer)
    assert type(raised.value) is type(error)
    assert (raised.value.message, raised.value.hint) == (error.message, error.hint)
    assert asked == ["r"]


async def test_a_status_that_no_repeat_can_change_is_a_grader_error_at_once():
    asked: list[str] = []

    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        asked.append(request.request_id)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "another service lives here")
        raise AssertionError

    with pytest.raises(GraderError, match="UNIMPLEMENTED: another service lives here"):
        await grade(answer)
    assert asked == ["r"]


@pytest.mark.parametrize(
    "status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL]
)
async def test_a_lost_answer_is_asked_for_again_with_the_same_request(status: grpc.StatusCode):
    asked: list[wire.GradeRequest] = []

    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        asked.append(request)
        if len(asked) == 1:
            await context.abort(status, "lost")
        return good()

    verdict, _ = await grade(answer)
    assert verdict.reward == 0.0
    assert len(asked) == 2
    assert asked[0] == asked[1]


async def test_a_verdict_with_a_diff_of_many_megabytes_arrives():
    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        verdict = good()
        for number in range(40):
            verdict.diff.add(table="t", key_json=str(number), before_json="x" * (1 << 20))
        return verdict

    verdict, _ = await grade(answer, seconds=20)
    assert len(verdict.diff) == 40


async def test_a_grader_that_stays_away_is_a_grader_error_and_in_doubt_until_it_is_back():
    server, port = await serve("127.0.0.1:0", lambda s: None)
    await server.stop(None)
    grader = Grader(f"127.0.0.1:{port}", "token", 0.4)
    with pytest.raises(GraderError, match=f"grader 127.0.0.1:{port}: UNAVAILABLE"):
        await ask(grader)
    assert grader.is_doubtful
    waiting = asyncio.create_task(grader.wait_until_healthy())
    await asyncio.sleep(0)
    assert not waiting.done()

    async def answer(request: wire.GradeRequest, context: Any) -> verdict_pb2.Verdict:
        return good()

    back, _ = await serve(
        f"127.0.0.1:{port}", lambda s: add_GraderServiceServicer_to_server(Canned(answer), s)
    )
    await asyncio.wait_for(waiting, 20)
    assert not grader.is_doubtful
    assert (await ask(grader)).reward == 0.0
    await grader.close()
    await back.stop(None)
