"""The client of `envfarm bench env`: whole episodes through the real doors, each verdict checked."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from envfarm.canonical import canonical_json
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import env_service_pb2_grpc, episode_pb2
from envfarm_common import grpc

from envfarm_cli.bench import world
from envfarm_cli.failure import Failure

RIGHT_AFTER_WRONG = 2
"""Every second episode is wrong: by turns it leaves the last write out, or writes another row."""


@dataclass(slots=True)
class Timings:
    """Seconds of each single operation, in the order in which they ended."""

    opens: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    seals: list[float] = field(default_factory=list)
    grades: list[float] = field(default_factory=list)
    seal_grades: list[float] = field(default_factory=list)
    wrong_verdicts: int = 0


@dataclass(frozen=True, slots=True)
class Doors:
    """Where the services listen, with their tokens."""

    env_server: str
    env_token: str
    grader: str
    grader_token: str


class Client:
    """Speaks to one env-server and one grader; `async with`."""

    def __init__(self, doors: Doors, *, reuse: bool):
        self._doors = doors
        self._mode = episode_pb2.SLOT_MODE_REUSE if reuse else episode_pb2.SLOT_MODE_FRESH
        self._number = 0
        self._name = secrets.token_hex(4)

    async def __aenter__(self) -> "Client":
        self._channel, self._metadata = grpc.connect(self._doors.env_server, self._doors.env_token)
        self._stub: Any = env_service_pb2_grpc.EnvServiceStub(self._channel)
        self._http = httpx.AsyncClient(
            base_url=self._doors.grader,
            headers={"authorization": f"Bearer {self._doors.grader_token}"},
            timeout=60,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        await self._channel.close()

    async def episodes(self, count: int, concurrency: int, timings: Timings) -> float:
        """Run them, `concurrency` at a time; returns the seconds that it took."""
        numbers = iter(range(count))

        async def worker() -> None:
            for number in numbers:
                await self._episode(number, timings)

        begin = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(min(concurrency, count))))
        return time.perf_counter() - begin

    async def open(self, timings: Timings | None = None) -> episode_pb2.Episode:
        self._number += 1
        request = pb.OpenEpisodeRequest(
            request_id=f"bench-{self._name}-{self._number}",
            task_id=world.ID,
            slot_mode=self._mode,
            lease_seconds=600,
        )
        begin = time.perf_counter()
        answer = await self._stub.OpenEpisode(request, metadata=self._metadata)
        if timings:
            timings.opens.append(time.perf_counter() - begin)
        return answer.episode

    async def call_all(
        self, episode: episode_pb2.Episode, calls: list[tuple[str, dict[str, Any]]], into: list
    ) -> None:
        for place, (tool, arguments) in enumerate(calls):
            request = pb.CallToolRequest(
                episode_id=episode.episode_id,
                request_id=f"{episode.episode_id}.{place}",
                tool=tool,
                arguments_json=canonical_json(arguments),
            )
            begin = time.perf_counter()
            answer = await self._stub.CallTool(request, metadata=self._metadata)
            into.append(time.perf_counter() - begin)
            if answer.result.is_error:
                raise Failure(f"{tool} was refused: {answer.result.content}")

    async def close(self, episode: episode_pb2.Episode) -> None:
        request = pb.CloseEpisodeRequest(episode_id=episode.episode_id)
        await self._stub.CloseEpisode(request, metadata=self._metadata)

    async def capacity(self) -> pb.GetCapacityResponse:
        return await self._stub.GetCapacity(pb.GetCapacityRequest(), metadata=self._metadata)

    async def _episode(self, number: int, timings: Timings) -> None:
        is_right = number % RIGHT_AFTER_WRONG == 0
        calls = list(world.CALLS)
        if not is_right:
            calls.pop()
            if number % 4 == 1:
                calls.append(("set_status", {"order_id": 18, "status": "packed"}))
        episode = await self.open(timings)
        await self.call_all(episode, calls, timings.calls)
        begin = time.perf_counter()
        request = pb.SealEpisodeRequest(episode_id=episode.episode_id)
        await self._stub.SealEpisode(request, metadata=self._metadata)
        sealed = time.perf_counter()
        answer = await self._http.post("/v1/grade", json=_grade_request(episode))
        end = time.perf_counter()
        timings.seals.append(sealed - begin)
        timings.grades.append(end - sealed)
        timings.seal_grades.append(end - begin)
        answer.raise_for_status()
        timings.wrong_verdicts += answer.json().get("reward") != float(is_right)
        await self.close(episode)


def _grade_request(episode: episode_pb2.Episode) -> dict[str, Any]:
    return {
        "request_id": episode.episode_id,
        "task_id": episode.task.ref.task_id,
        "task_hash": episode.task.ref.task_hash,
        "episode": {"env_server": episode.env_server, "episode_id": episode.episode_id},
        "final_reply": world.REPLY,
    }
