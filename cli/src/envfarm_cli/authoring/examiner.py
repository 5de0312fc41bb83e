"""Plays runs on an env-server and grades their ends, for authors: no golden state has to be stored.

The golden state of a task is made when it is first asked for, by playing its golden run in a fresh
episode, as the grader's ingest does; checks run in the grader's own code.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
from envfarm.canonical import canonical_json
from envfarm.errors import EvidenceError, GraderError, NoCapacity, boundary
from envfarm.task_pages import every_task
from envfarm.v1 import env_service_pb2 as pb
from envfarm.v1 import episode_pb2, task_pb2
from envfarm.v1.env_service_pb2_grpc import EnvServiceStub
from envfarm_common import logging
from envfarm_common.grpc import connect

from envfarm_cli.authoring.server_apart import ServerApart
from envfarm_cli.failure import Failure
from grader.check_run import CheckRunner, make_runner
from grader.checkset import CheckFile, Checkset, load_checkset
from grader.evidence import Evidence
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.golden import Golden, make_golden
from grader.grading import Attempt, Graded, grade
from grader.judge.kept_words import Asked

FRESH, REUSE = episode_pb2.SLOT_MODE_FRESH, episode_pb2.SLOT_MODE_REUSE
SlotMode = episode_pb2.SlotMode
CALL_SECONDS = 30.0
FULL_SECONDS = 60.0
"""Longest wait for an env-server that is full."""
LEASE_SECONDS = 3600.0


@dataclass(slots=True)
class Played:
    """An open episode and what its calls answered."""

    episode: episode_pb2.Episode
    stub: Any
    metadata: list[tuple[str, str]]
    answers: list[episode_pb2.ToolResult] = field(default_factory=list)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> episode_pb2.ToolResult:
        """GraderError when the env-server does not answer."""
        request = pb.CallToolRequest(
            episode_id=self.episode.episode_id,
            request_id=secrets.token_hex(8),
            tool=tool,
            arguments_json=canonical_json(dict(arguments)),
        )
        with boundary(GraderError, f"calling {tool}"):
            answer = await self.stub.CallTool(request, metadata=self.metadata, timeout=CALL_SECONDS)
        self.answers.append(answer.result)
        return answer.result

    async def renew(self) -> None:
        """Failure when the episode has ended meanwhile."""
        ids = [self.episode.episode_id]
        with boundary(GraderError, "renewing the lease"):
            answer = await self.stub.RenewLease(
                pb.RenewLeaseRequest(episode_ids=ids), metadata=self.metadata, timeout=CALL_SECONDS
            )
        if answer.gone:
            raise Failure("the episode has ended: nobody renewed its lease", hint="start again")

    async def seal(self) -> pb.SealEpisodeResponse:
        request = pb.SealEpisodeRequest(episode_id=self.episode.episode_id)
        with boundary(GraderError, "sealing"):
            return await self.stub.SealEpisode(
                request, metadata=self.metadata, timeout=CALL_SECONDS
            )


@dataclass(frozen=True, slots=True)
class _Held:
    golden: Golden

    def load(self, task_id: str, task_hash: str, checks_hash: str) -> Golden:
        return self.golden


class Examiner:
    """One env-server with the private halves of its tasks; made by `examiner`."""

    def __init__(
        self,
        server: ServerApart,
        channel: grpc.aio.Channel,
        metadata: list[tuple[str, str]],
        source: EvidenceClient,
        checkset: Checkset,
        runner: CheckRunner,
        at_once: int,
    ):
        self._stub = EnvServiceStub(channel)
        self._metadata = metadata
        self._target = f"dns:///{server.grpc}"
        self._source = source
        self._checkset = checkset
        self._runner = runner
        self.at_once = at_once
        self._room = asyncio.Semaphore(at_once)
        self._golden: dict[str, Golden] = {}
        self._before: dict[str, Evidence] = {}
        self.episodes = 0

    async def tasks(self) -> dict[str, task_pb2.Task]:
        """Public halves by task id."""
        with boundary(GraderError, "listing tasks"):
            return await every_task(
                lambda request: self._stub.ListTasks(
                    request, metadata=self._metadata, timeout=CALL_SECONDS
                )
            )

    def checks(self, task_id: str) -> CheckFile:
        """NoChecks when the task has no private half."""
        return self._checkset.find(task_id)

    @asynccontextmanager
    async def episode(
        self, task: task_pb2.Task, slot_mode: SlotMode = FRESH
    ) -> AsyncIterator[Played]:
        """An episode that is closed at the end; waits while the env-server is full."""
        async with self._room:
            played = await self._open(task, slot_mode)
            try:
                yield played
            finally:
                with boundary(GraderError, "closing an episode"):
                    await self._stub.CloseEpisode(
                        pb.CloseEpisodeRequest(episode_id=played.episode.episode_id),
                        metadata=self._metadata,
                        timeout=CALL_SECONDS,
                    )

    async def golden(self, task: task_pb2.Task) -> Golden:
        """The right end; EvidenceError when a golden call is refused."""
        task_id = task.ref.task_id
        if task_id not in self._golden:
            checks = self.checks(task_id)
            before = await self._untouched(task)
            async with self.episode(task) as played:
                for action in checks.golden.actions:
                    result = await played.call(action.tool, action.arguments)
                    if result.is_error:
                        raise EvidenceError(
                            f"{task_id}: the golden call {action.tool} is refused: {result.content}"
                        )
                await played.seal()
                after = await self._source.read(self._target, played.episode.episode_id)
            self._golden[task_id] = make_golden(checks.checks_hash, before, after)
        return self._golden[task_id]

    async def _untouched(self, task: task_pb2.Task) -> Evidence:
        """Of an episode without calls, once for all tasks of a world."""
        world = task.world.world_hash
        if world not in self._before:
            async with self.episode(task) as played:
                await played.seal()
                self._before[world] = await self._source.read(
                    self._target, played.episode.episode_id
                )
        return self._before[world]

    async def grade(self, task: task_pb2.Task, played: Played, reply: str) -> Graded:
        """The decision on a sealed episode and its last words; `golden` must have been asked before,
        as it takes episodes of its own."""
        golden = _Held(self._golden[task.ref.task_id])
        attempt = Attempt(task_id=task.ref.task_id, task_hash=task.ref.task_hash, final_reply=reply)
        state = EpisodeState(self._source, self._target, played.episode.episode_id)
        return await grade(attempt, self.checks(task.ref.task_id), golden, state, self._runner)

    async def _open(self, task: task_pb2.Task, slot_mode: SlotMode) -> Played:
        request = pb.OpenEpisodeRequest(
            request_id=secrets.token_hex(16),
            task_id=task.ref.task_id,
            task_hash=task.ref.task_hash,
            slot_mode=slot_mode,
            lease_seconds=LEASE_SECONDS,
            client="envfarm-tasks",
        )
        deadline = time.monotonic() + FULL_SECONDS
        while True:
            try:
                with boundary(GraderError, f"opening {task.ref.task_id}"):
                    opened = await self._stub.OpenEpisode(
                        request, metadata=self._metadata, timeout=FULL_SECONDS
                    )
            except NoCapacity as error:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(error.retry_after_seconds or 0.2)
                continue
            self.episodes += 1
            return Played(opened.episode, self._stub, self._metadata)


@asynccontextmanager
async def examiner(
    server: ServerApart, *, at_once: int = 8, judge: Asked | None = None
) -> AsyncIterator[Examiner]:
    """ConfigError when the private half of a task is not understood or cannot be judged here."""
    logging.configure("examiner", "error")
    keys = server.state.secrets()
    checkset = load_checkset(server.domains)
    channel, metadata = connect(f"dns:///{server.grpc}", keys["env_infra"])
    source = EvidenceClient(keys["env_grader"], CALL_SECONDS)
    try:
        runner = make_runner(checkset, judge)
        yield Examiner(server, channel, metadata, source, checkset, runner, at_once)
    finally:
        await source.close()
        await channel.close()


def schema_of(tool: task_pb2.ToolSpec) -> dict[str, Any]:
    """JSON Schema of a tool's arguments."""
    return json.loads(tool.input_schema_json or "{}")
