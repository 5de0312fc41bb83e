"""A gRPC door in front of a real one, in which single calls of single attempts fail as planned.

    async with faulty_door(env_server.grpc) as door: door.plan("CallTool", "job.0.3.s0.a1", "lost")

Bytes go through unread, but for what names an attempt. Each planned fault happens once: `unavailable`
(the call never arrives), `lost` (it is served, its answer is not), `hang`, or a function that gets the
request and the real answer (None: do not ask) and gives another answer or raises.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from envfarm.v1 import env_service_pb2, grader_service_pb2
from envfarm_common.grpc import OPTIONS, serve

OPEN, GRADE = "OpenEpisode", "Grade"
CARRIED = ("authorization", "traceparent")


@dataclass
class FaultyDoor:
    upstream: str
    real_env_server: str = ""
    """Of a door before a grader: where the episodes are in truth."""
    address: str = ""
    served: Counter[str] = field(default_factory=Counter)
    """Method and request id of what reached the real door, where there is one."""
    _faults: dict[tuple[str, str], str | Callable[[], bytes]] = field(default_factory=dict)
    _episodes: dict[str, str] = field(default_factory=dict)
    """Request id of the open by episode."""

    def plan(self, method: str, rollout_id: str, fault: str | Callable[[], bytes]) -> None:
        """A function gives the answer's bytes, or raises; the real door is not asked."""
        self._faults[method, rollout_id] = fault

    @property
    def unused(self) -> list[tuple[str, str]]:
        """Faults that have not happened."""
        return sorted(self._faults)

    async def answer(
        self, method: str, request: bytes, context: grpc.aio.ServicerContext, ask: Any
    ) -> bytes:
        request_id = self._request_id(method, request)
        fault = self._faults.pop((method, _rollout_id(request_id)), "")
        if callable(fault):
            return fault()
        if fault == "unavailable":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "planned")
        if fault == "hang":
            await asyncio.sleep(3600)
        self.served[f"{method} {request_id}"] += 1
        metadata = [pair for pair in context.invocation_metadata() or () if pair[0] in CARRIED]
        call = ask(self._sent(method, request), metadata=metadata)
        try:
            found = await call
        except grpc.aio.AioRpcError as error:
            context.set_trailing_metadata(tuple(error.trailing_metadata() or ()))
            await context.abort(error.code(), error.details() or "")
        if fault == "lost":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "planned")
        return self._told(method, request_id, found)

    def _request_id(self, method: str, request: bytes) -> str:
        if method == OPEN:
            return env_service_pb2.OpenEpisodeRequest.FromString(request).request_id
        if method == "CallTool":
            return env_service_pb2.CallToolRequest.FromString(request).request_id
        if method == GRADE:
            return grader_service_pb2.GradeRequest.FromString(request).request_id
        if method in ("SealEpisode", "CloseEpisode"):
            sent = env_service_pb2.SealEpisodeRequest.FromString(request)
            return self._episodes.get(sent.episode_id, "")
        return ""

    def _sent(self, method: str, request: bytes) -> bytes:
        if method != GRADE:
            return request
        sent = grader_service_pb2.GradeRequest.FromString(request)
        sent.episode.env_server = self.real_env_server
        return sent.SerializeToString()

    def _told(self, method: str, request_id: str, answer: bytes) -> bytes:
        if method != OPEN:
            return answer
        opened = env_service_pb2.OpenEpisodeResponse.FromString(answer)
        self._episodes[opened.episode.episode_id] = request_id
        opened.episode.env_server = ""  # or its calls would not come through here
        return opened.SerializeToString()


class _Forward(grpc.GenericRpcHandler):
    def __init__(self, door: FaultyDoor, channel: grpc.aio.Channel):
        self._door, self._channel = door, channel

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        if not path.startswith("/envfarm."):
            return None
        method = path.rpartition("/")[2]
        ask = self._channel.unary_unary(path)

        async def forward(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return await self._door.answer(method, request, context, ask)

        return grpc.unary_unary_rpc_method_handler(forward)


@asynccontextmanager
async def faulty_door(upstream: str, real_env_server: str = "") -> AsyncIterator[FaultyDoor]:
    door = FaultyDoor(upstream, real_env_server)
    async with grpc.aio.insecure_channel(upstream, options=[*OPTIONS.items()]) as channel:
        server, port = await serve(
            "127.0.0.1:0", lambda made: made.add_generic_rpc_handlers([_Forward(door, channel)])
        )
        door.address = f"127.0.0.1:{port}"
        try:
            yield door
        finally:
            await server.stop(None)


def _rollout_id(request_id: str) -> str:
    """`job.0.3.s0.a1` of `job.0.3.s0.a1.<boot>.c2`."""
    group, _, rest = request_id.rpartition(".s")
    return f"{group}.s{'.'.join(rest.split('.')[:2])}"
