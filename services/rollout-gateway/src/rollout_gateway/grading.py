"""The grader's gRPC door. Grading is idempotent by request id, so a lost answer is asked for again."""

import asyncio
import itertools
import math
from typing import Any

import grpc
import grpc.aio
from envfarm.errors import TRAILER, GraderError, boundary
from envfarm.v1 import grader_service_pb2 as wire
from envfarm.v1 import task_pb2, verdict_pb2
from envfarm.v1.grader_service_pb2_grpc import GraderServiceStub
from envfarm_common import tracing
from envfarm_common.grpc import connect
from grpc_health.v1 import health_pb2, health_pb2_grpc

RETRY_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 5.0
TRY_SECONDS = 20.0
HEALTH_SECONDS = 1.0
CHANNELS = 4
"""Connections of our own: the kernel deals them out among the grader's workers."""
_LOST = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
}
"""What a connection that broke ends in; with a trailer of the grader's own it is an answer."""


class Grader:
    def __init__(self, address: str, token: str, grade_seconds: float):
        self._address = address
        self._seconds = grade_seconds
        self._is_doubtful = False
        # A verdict holds the whole diff, which may be a whole world that an agent wiped.
        options = {"use_local_subchannel_pool": 1, "max_receive_message_length": -1}
        pairs = [connect(address, token, **options) for _ in range(CHANNELS)]
        self._channels = [channel for channel, _ in pairs]
        self._metadata = pairs[0][1]
        self._stubs: Any = itertools.cycle([GraderServiceStub(c) for c in self._channels])
        self._health: Any = health_pb2_grpc.HealthStub(self._channels[0])

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    @property
    def is_doubtful(self) -> bool:
        """It failed to answer, and has not been seen healthy since."""
        return self._is_doubtful

    async def wait_until_healthy(self) -> None:
        """Returns at once unless the grader is in doubt."""
        while self._is_doubtful:
            try:
                answer = await self._health.Check(
                    health_pb2.HealthCheckRequest(), timeout=HEALTH_SECONDS
                )
                self._is_doubtful = answer.status != health_pb2.HealthCheckResponse.SERVING
            except grpc.RpcError:
                pass
            if self._is_doubtful:
                await asyncio.sleep(HEALTH_SECONDS)

    async def grade(
        self,
        *,
        request_id: str,
        task: task_pb2.TaskRef,
        env_server: str,
        episode_id: str,
        final_reply: str,
        conversation_json: str = "",
    ) -> verdict_pb2.Verdict:
        """A graded verdict on a sealed episode.

        Raises GraderError when the grader stays away or finds the attempt ungradable, and what the
        grader itself raised otherwise.
        """
        request = wire.GradeRequest(
            request_id=request_id,
            task=task,
            episode=wire.EpisodeReference(env_server=env_server, episode_id=episode_id),
            final_reply=final_reply,
            conversation_json=conversation_json,
        )
        loop = asyncio.get_running_loop()
        pause, deadline = RETRY_PAUSE_SECONDS, loop.time() + self._seconds
        while True:
            try:
                return _checked(await self._ask(request, deadline - loop.time()), request)
            except GraderError as error:
                is_lost = _is_lost(error)
                self._is_doubtful = self._is_doubtful or is_lost
                if not is_lost or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _ask(self, request: wire.GradeRequest, seconds: float) -> verdict_pb2.Verdict:
        with boundary(GraderError, f"grader {self._address}"):
            answer = await next(self._stubs).Grade(
                request,
                metadata=tracing.with_trace(self._metadata),
                timeout=min(TRY_SECONDS, seconds),
            )
        return answer.verdict


def _is_lost(error: GraderError) -> bool:
    """Whether no answer came, so that it is not known here if there is a verdict."""
    cause = error.__cause__
    if not isinstance(cause, grpc.aio.AioRpcError):
        return False
    said_by_grader = any(key == TRAILER for key, _ in cause.trailing_metadata() or ())
    return not said_by_grader and cause.code() in _LOST


def _checked(verdict: verdict_pb2.Verdict, request: wire.GradeRequest) -> verdict_pb2.Verdict:
    if verdict.status == verdict_pb2.VERDICT_STATUS_UNGRADABLE:
        raise GraderError(f"ungradable: {verdict.ungradable_reason}")
    if verdict.status != verdict_pb2.VERDICT_STATUS_GRADED or not verdict.HasField("reward"):
        raise GraderError("grader: a verdict without status or reward")
    if not math.isfinite(verdict.reward):
        raise GraderError(f"grader: reward {verdict.reward}")
    if verdict.request_id != request.request_id or verdict.task != request.task:
        raise GraderError("grader: the verdict is about another request or task")
    return verdict
