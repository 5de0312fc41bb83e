"""The grader's answers: what is a verdict, what is a failure, what is asked again."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from envfarm.errors import EnvfarmError, GraderError, NoChecks
from envfarm.v1 import task_pb2, verdict_pb2

from rollout_gateway.grading import Grader

TASK = task_pb2.TaskRef(task_id="orders/a", task_hash="t" * 64)
GOOD: dict[str, Any] = {
    "request_id": "r",
    "task": {"task_id": "orders/a", "task_hash": "t" * 64},
    "status": "VERDICT_STATUS_GRADED",
    "reward": 0.0,
}


async def grade(answer: Callable[[httpx.Request], httpx.Response], seconds: float = 0.4):
    grader = Grader("http://grader", "token", seconds)
    grader._client = httpx.AsyncClient(
        transport=httpx.MockTransport(answer), base_url="http://grader"
    )
    return await grader.grade(
        request_id="r", task=TASK, env_server="e:1", episode_id="ep-1", final_reply="Done."
    )


async def test_a_graded_verdict_may_be_zero():
    verdict = await grade(lambda request: httpx.Response(200, json=GOOD))
    assert verdict.HasField("reward")
    assert verdict.reward == 0.0
    assert verdict.status == verdict_pb2.VERDICT_STATUS_GRADED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "VERDICT_STATUS_UNGRADABLE", "ungradable_reason": "torn"}, "ungradable: torn"),
        ({"reward": None}, "without status or reward"),
        ({"status": "VERDICT_STATUS_UNSPECIFIED"}, "without status or reward"),
        ({"reward": "NaN"}, "reward nan"),
        ({"request_id": "other"}, "another request"),
        ({"task": {"task_id": "orders/b", "task_hash": "t" * 64}}, "another request"),
    ],
)
async def test_anything_less_than_a_verdict_is_a_failure(change: dict[str, Any], message: str):
    with pytest.raises(GraderError, match=message):
        await grade(lambda request: httpx.Response(200, json={**GOOD, **change}))


async def test_a_problem_document_is_the_graders_own_error():
    body = {"code": "ERROR_CODE_NO_CHECKS", "detail": "no checks for orders/a", "hint": "h"}
    with pytest.raises(NoChecks, match="no checks for orders/a"):
        await grade(lambda request: httpx.Response(409, json=body))


@pytest.mark.parametrize("content", [b"<html>", b"[]", b'{"code": "NEW"}'])
async def test_an_unreadable_problem_is_a_grader_error(content: bytes):
    with pytest.raises(GraderError, match="HTTP 500"):
        await grade(lambda request: httpx.Response(500, content=content))


async def test_a_lost_connection_is_asked_again_with_the_same_request():
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        if len(bodies) == 1:
            raise httpx.ReadError("lost", request=request)
        return httpx.Response(200, json=GOOD)

    assert (await grade(answer)).reward == 0.0
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


async def test_a_grader_that_stays_away_is_a_grader_error():
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(EnvfarmError, match="ConnectError"):
        await grade(answer)
