"""One attempt, from open to close: the conversation, its tokens, its verdict.

`run` always returns one record: a Rollout whose trajectory carries the status, and beside it a
FailedAttempt when there is no reward. Limits of the policy are counted and end in truncated_* with
a reward; wall time is ours and ends in timed_out without one.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from envfarm.errors import EnvfarmError
from envfarm.sampling import Sampling
from envfarm.streams import PAYLOAD_VERSION
from envfarm.v1 import group_pb2, policy_pb2, task_pb2, trajectory_pb2, verdict_pb2
from envfarm_common import logging, tracing
from envfarm_common.metrics import Instruments

from rollout_gateway.chat.calls import MalformedCall, ToolCall
from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat_dialogue import INTERFACE, ChatDialogue
from rollout_gateway.chat_endpoint import ChatEndpoint
from rollout_gateway.dialogue import Dialogue, Place, Said, TokenDialogue
from rollout_gateway.environment import Environment, LiveEpisode
from rollout_gateway.grading import Grader
from rollout_gateway.policy import Policy
from rollout_gateway.stages import Stages
from rollout_gateway.user import User, Users

Waiting = Callable[[str], AbstractContextManager[None]]
"""Entered with the name of what an attempt waits for."""
S = trajectory_pb2.RolloutStatus
Kind = trajectory_pb2.TurnKind
STATUS_OF_BOUNDARY = {
    "env": S.ROLLOUT_STATUS_FAILED_ENV,
    "engine": S.ROLLOUT_STATUS_FAILED_ENGINE,
    "user": S.ROLLOUT_STATUS_FAILED_USER,
    "grader": S.ROLLOUT_STATUS_FAILED_GRADER,
    "clock": S.ROLLOUT_STATUS_TIMED_OUT,
    "gateway": S.ROLLOUT_STATUS_CANCELLED,
}

log = logging.get(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What every attempt uses."""

    environment: Environment
    policy: Policy
    grader: Grader
    users: Users
    renderer: Renderer
    sampling: Sampling
    chat: ChatEndpoint | None
    """Asked by jobs of interface chat; None when there is no such endpoint."""
    stages: Stages
    instruments: Instruments
    attempt_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Which attempt this is."""

    rollout_id: str
    request_id: str
    """Of the open; never used twice, also not by the process that ran before this one."""
    slot: int
    attempt: int
    task: task_pb2.Task
    repetition: int = 0
    """Of the task within its job, from 0."""
    slot_mode: str = ""
    """fresh, reuse, or empty for the gateway's own."""
    seed: int = 0
    """Of the job; simulated users take theirs from it."""
    policy: policy_pb2.PolicyVersion | None = None
    """In service when the attempt begins."""
    interface: str = ""
    """chat, or empty for our engines."""


@dataclass(slots=True)
class Attempted:
    rollout: group_pb2.Rollout
    failure: group_pb2.FailedAttempt | None = None
    error: EnvfarmError | None = None
    initial_state_hash: str = ""
    user_tokens: int = 0
    """Of a simulated user's model, in and out."""


@dataclass(slots=True)
class Counts:
    turns: int = 0
    calls: int = 0
    tool_seconds: float = 0.0


class Attempt:
    """State of one attempt while it runs."""

    def __init__(self, parts: Parts, order: Order, waiting: Waiting):
        self._parts, self._order, self._waiting = parts, order, waiting
        self._limits = order.task.limits
        self._tools = self._offered()
        self._schemas = {tool.name: tool.schema for tool in self._tools}
        self._dialogue = self._made()
        self._counts = Counts()
        self._turns: list[trajectory_pb2.Turn] = []
        self._user: User | None = None
        self._final_reply = ""
        self._status = S.ROLLOUT_STATUS_UNSPECIFIED
        self._boundary = self.doing = "env"
        self.doing_since = time.monotonic()
        self._episode_id = self._initial_state_hash = ""
        self._verdict: verdict_pb2.Verdict | None = None
        self._started = time.monotonic()

    def now(self) -> dict[str, str | int | float]:
        """What it does at this moment, and for how many seconds already."""
        return {
            "rollout_id": self._order.rollout_id,
            "task_id": self._order.task.ref.task_id,
            "turn": self._counts.turns,
            "doing": self.doing,
            "seconds": round(time.monotonic() - self.doing_since, 3),
            "running_seconds": round(time.monotonic() - self._started, 3),
        }

    async def run(self) -> Attempted:
        """One trace, whose ids come from the rollout id."""
        rollout_id = self._order.rollout_id
        with tracing.attempt(rollout_id), logging.bind(rollout_id=rollout_id):
            return await self._run()

    async def _run(self) -> Attempted:
        failure: group_pb2.FailedAttempt | None = None
        cause: EnvfarmError | None = None
        try:
            with self._at("env", "open"):
                opened = self._parts.environment.episode(
                    self._order.task.ref,
                    self._order.request_id,
                    lambda: self._waiting("env"),
                    self._order.slot_mode,
                )
                episode = await opened.__aenter__()
            try:
                with logging.bind(episode_id=episode.episode_id):
                    async with asyncio.timeout(self._parts.attempt_seconds):
                        await self._play(episode)
            finally:
                await opened.__aexit__(None, None, None)
        except EnvfarmError as error:
            cause, failure = error, self._failed(type(error).__name__, error.message)
        except TimeoutError:
            where, self._boundary = self._boundary, "clock"
            limit = self._parts.attempt_seconds
            failure = self._failed("TimeoutError", f"not done within {limit:g} s, in {where}")
        if failure is not None:
            log.info(
                "attempt without reward",
                episode_id=self._episode_id,
                error=failure.error_class,
                boundary=failure.boundary,
                reason=failure.message,
            )
        return self._attempted(time.monotonic() - self._started, failure, cause)

    def cancelled(self) -> Attempted:
        """The record of an attempt whose `run` was cancelled."""
        where, self._boundary = self._boundary, "gateway"
        failure = self._failed("CancelledError", f"cancelled, in {where}")
        return self._attempted(time.monotonic() - self._started, failure)

    def _attempted(
        self,
        seconds: float,
        failure: group_pb2.FailedAttempt | None,
        cause: EnvfarmError | None = None,
    ) -> Attempted:
        tokens = self._user.tokens if self._user is not None else 0
        self._parts.instruments.count("envfarm_user_tokens_total", tokens)
        record = self._record(seconds)
        return Attempted(record, failure, cause, self._initial_state_hash, tokens)

    async def _play(self, episode: LiveEpisode) -> None:
        self._episode_id = episode.episode_id
        self._initial_state_hash = episode.initial_state_hash
        user = self._start(episode.task)
        status = None
        while status is None:
            status = await self._turn(episode, user)
        with self._at("env", "grade"):
            await episode.seal()
        with self._at("grader", "grade"):
            self._verdict = await self._parts.grader.grade(
                request_id=self._order.request_id,
                task=self._order.task.ref,
                env_server=episode.env_server,
                episode_id=episode.episode_id,
                final_reply=self._final_reply,
                conversation_json=self._words(),
            )
        self._parts.instruments.count("envfarm_graded_tokens_total", self._dialogue.sampled_tokens)
        self._status = status

    def _start(self, task: task_pb2.Task) -> User:
        with self._at("user"):
            seed = f"{self._order.seed}:{task.ref.task_id}:{self._order.repetition}"
            self._user = user = self._made_user(task, seed)
        self._boundary = "engine"
        system, opening = self._dialogue.begin(task.policy, task.opening)
        self._note(Kind.TURN_KIND_SYSTEM, task.policy, system)
        self._note(Kind.TURN_KIND_USER, task.opening, opening)
        return user

    def _made_user(self, task: task_pb2.Task, seed: str) -> User:
        return self._parts.users.user(task.ref.task_id, task.opening, seed)

    def _offered(self) -> list[ToolLine]:
        """Tools as the policy is shown them."""
        return [
            ToolLine(name=t.name, description=t.description, input_schema_json=t.input_schema_json)
            for t in self._order.task.tools
        ]

    def _words(self) -> str:
        """The conversation for a grader that looks at it: ours judges ends alone."""
        return ""

    async def _turn(self, episode: LiveEpisode, user: User) -> trajectory_pb2.RolloutStatus | None:
        """One generation and what it causes; the status when the conversation is over."""
        if self._counts.turns >= self._limits.max_turns:
            return S.ROLLOUT_STATUS_TRUNCATED_TURNS
        said = await self._spoken()
        reply, turn = said.reply, self._turns[-1]
        if said.cut:
            return S.ROLLOUT_STATUS_TRUNCATED_TOKENS
        if reply.calls:
            for call in reply.calls:
                if not await self._call(episode, call, turn):
                    return S.ROLLOUT_STATUS_TRUNCATED_CALLS
            contents = [record.content for record in turn.calls]
            placed = self._dialogue.tool_results(contents)
            return self._observe(Kind.TURN_KIND_TOOL, "\n".join(contents), placed)
        self._final_reply = reply.text
        with self._at("user"):
            answer = await user.answer(reply.text)
        if answer is None:
            return S.ROLLOUT_STATUS_COMPLETED
        return self._observe(Kind.TURN_KIND_USER, answer, self._dialogue.user(answer))

    async def _spoken(self) -> Said:
        """One generation, put on record as it was read."""
        said = await self._generate()
        reply, turn = said.reply, self._turns[-1]
        turn.text, turn.reasoning = reply.text, reply.reasoning
        turn.calls_in_reasoning = reply.calls_in_reasoning
        if reply.calls_in_reasoning:
            self._parts.instruments.count(
                "envfarm_calls_in_reasoning_total", reply.calls_in_reasoning
            )
        return said

    async def _generate(self) -> Said:
        with self._at("engine", "generate"):
            said = await self._dialogue.generate(self._counts.turns)
        self._counts.turns += 1
        self._parts.instruments.count("envfarm_sampled_tokens_total", said.tokens)
        self._note(Kind.TURN_KIND_ASSISTANT, "", said.place)
        return said

    async def _call(
        self, episode: LiveEpisode, call: ToolCall | MalformedCall, turn: trajectory_pb2.Turn
    ) -> bool:
        """Run one call; False, and nothing run, when a limit of calls is reached."""
        limits, counts = self._limits, self._counts
        if counts.calls >= limits.max_tool_calls or counts.tool_seconds >= limits.max_tool_seconds:
            return False
        counts.calls += 1
        if isinstance(call, MalformedCall):
            turn.calls.add(
                name=call.name, arguments_json=call.raw, content=call.problem, is_error=True
            )
        elif call.name not in self._schemas:
            turn.calls.add(
                name=call.name,
                arguments_json=call.arguments_json,
                content=self._unknown(call.name),
                is_error=True,
            )
        else:
            with self._at("env", "tool"), tracing.span("call", tool=call.name):
                result = await episode.call(call.name, call.arguments_json)
            counts.tool_seconds += result.seconds
            turn.calls.add(
                name=call.name,
                arguments_json=call.arguments_json,
                content=result.content,
                is_error=result.is_error,
                seconds=result.seconds,
            )
        return True

    def _unknown(self, name: str) -> str:
        return f"There is no tool named {name}."

    def _observe(
        self, kind: trajectory_pb2.TurnKind, text: str, place: Place | None
    ) -> trajectory_pb2.RolloutStatus | None:
        """Put on record what the policy reads next; without a place nothing fits any more."""
        if place is None:
            return S.ROLLOUT_STATUS_TRUNCATED_TOKENS
        self._note(kind, text, place)
        return None

    def _note(self, kind: trajectory_pb2.TurnKind, text: str, place: Place) -> None:
        start, length = place
        self._turns.append(
            trajectory_pb2.Turn(kind=kind, text=text, token_start=start, token_length=length)
        )

    def _made(self) -> Dialogue:
        parts, task = self._parts, self._order.task
        if self._order.interface == INTERFACE:
            assert parts.chat is not None
            return ChatDialogue(parts.chat, task, self._tools)
        return TokenDialogue(
            parts.policy, parts.renderer, parts.sampling, task, self._tools, self._order.rollout_id
        )

    @contextmanager
    def _at(self, boundary: str, stage: str = "") -> Iterator[None]:
        self._boundary = boundary
        self.doing, self.doing_since = stage or boundary, time.monotonic()
        if not stage:
            yield
            return
        with self._parts.stages.at(stage):
            yield

    def _failed(self, error_class: str, message: str) -> group_pb2.FailedAttempt:
        self._status = STATUS_OF_BOUNDARY[self._boundary]
        self._verdict = None
        return group_pb2.FailedAttempt(
            rollout_id=self._order.rollout_id,
            slot=self._order.slot,
            attempt=self._order.attempt,
            status=self._status,
            error_class=error_class,
            boundary=self._boundary,
            message=message,
        )

    def _record(self, seconds: float) -> group_pb2.Rollout:
        order = self._order
        trajectory = trajectory_pb2.Trajectory(
            schema_version=PAYLOAD_VERSION,
            rollout_id=order.rollout_id,
            task=order.task.ref,
            turns=self._turns,
            status=self._status,
            final_reply=self._final_reply,
        )
        self._dialogue.write_to(trajectory)
        return group_pb2.Rollout(
            rollout_id=order.rollout_id,
            slot=order.slot,
            attempt=order.attempt,
            episode_id=self._episode_id,
            trajectory=trajectory,
            verdict=self._verdict,
            seconds=seconds,
        )
