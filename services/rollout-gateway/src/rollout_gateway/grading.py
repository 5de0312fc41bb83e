"""The grader's HTTP door. Grading is idempotent by request id, so a lost answer is asked for again."""

import asyncio
import math
from typing import Any

import httpx
from envfarm.errors import BY_CODE, Code, EnvfarmError, GraderError
from envfarm.v1 import task_pb2, verdict_pb2
from envfarm_common import tracing
from google.protobuf import json_format

RETRY_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 5.0
TRY_SECONDS = 20.0


class Grader:
    def __init__(self, url: str, token: str, grade_seconds: float):
        self._seconds = grade_seconds
        self._is_doubtful = False
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=min(TRY_SECONDS, grade_seconds),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    @property
    def is_doubtful(self) -> bool:
        """It failed to answer, and has not been seen healthy since."""
        return self._is_doubtful

    async def wait_until_healthy(self) -> None:
        """Returns at once unless the grader is in doubt."""
        while self._is_doubtful:
            try:
                answer = await self._client.get("/healthz")
                self._is_doubtful = answer.status_code != 200
            except httpx.HTTPError:
                pass
            if self._is_doubtful:
                await asyncio.sleep(1.0)

    async def grade(
        self,
        *,
        request_id: str,
        task: task_pb2.TaskRef,
        env_server: str,
        episode_id: str,
        final_reply: str,
    ) -> verdict_pb2.Verdict:
        """A graded verdict on a sealed episode.

        Raises GraderError when the grader stays away or finds the attempt ungradable, NoChecks and
        EvidenceError as the grader raised them.
        """
        body = {
            "request_id": request_id,
            "task_id": task.task_id,
            "task_hash": task.task_hash,
            "episode": {"env_server": env_server, "episode_id": episode_id},
            "final_reply": final_reply,
        }
        pause, deadline = RETRY_PAUSE_SECONDS, asyncio.get_running_loop().time() + self._seconds
        while True:
            try:
                return _checked(await self._ask(body), request_id, task)
            except GraderError as error:
                late = asyncio.get_running_loop().time() + pause > deadline
                lost = isinstance(error.__cause__, httpx.HTTPError)
                self._is_doubtful = self._is_doubtful or lost
                if late or not lost:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _ask(self, body: dict[str, Any]) -> verdict_pb2.Verdict:
        try:
            answer = await self._client.post("/v1/grade", json=body, headers=tracing.carried())
        except httpx.HTTPError as error:
            raise GraderError(f"grader: {type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise _problem(answer)
        try:
            return json_format.ParseDict(
                answer.json(), verdict_pb2.Verdict(), ignore_unknown_fields=True
            )
        except (ValueError, json_format.ParseError) as error:
            raise GraderError(f"grader: the answer is no verdict: {error}") from error


def _problem(answer: httpx.Response) -> EnvfarmError:
    try:
        body = answer.json()
        cls = BY_CODE[Code.Value(body["code"])]
        return cls(str(body["detail"]), hint=str(body.get("hint", "")))
    except (ValueError, KeyError, TypeError):
        return GraderError(f"grader: HTTP {answer.status_code}: {answer.text[:300]}")


def _checked(
    verdict: verdict_pb2.Verdict, request_id: str, task: task_pb2.TaskRef
) -> verdict_pb2.Verdict:
    if verdict.status == verdict_pb2.VERDICT_STATUS_UNGRADABLE:
        raise GraderError(f"ungradable: {verdict.ungradable_reason}")
    if verdict.status != verdict_pb2.VERDICT_STATUS_GRADED or not verdict.HasField("reward"):
        raise GraderError("grader: a verdict without status or reward")
    if not math.isfinite(verdict.reward):
        raise GraderError(f"grader: reward {verdict.reward}")
    if verdict.request_id != request_id or verdict.task != task:
        raise GraderError("grader: the verdict is about another request or task")
    return verdict
