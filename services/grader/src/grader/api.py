"""The HTTP door: POST /v1/grade. Wire ↔ domain only; the reward is decided in `verdict.py`."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from envfarm.canonical import content_hash
from envfarm.v1 import evidence_pb2, task_pb2, verdict_pb2
from envfarm_common import auth
from envfarm_common.metrics import Instruments
from fastapi import Depends, FastAPI, Header
from fastapi.responses import JSONResponse
from google.protobuf import json_format
from pydantic import BaseModel, ConfigDict, Field

from grader.allow_list import AllowList
from grader.check_run import CheckRunner
from grader.checkset import Checkset
from grader.evidence import Change
from grader.evidence_client import EpisodeState, EvidenceClient
from grader.grading import Attempt, GoldenSource, Graded, grade
from grader.replay import Replay
from grader.source_hash import grader_hash

_OPS = {
    "insert": evidence_pb2.ROW_OP_INSERT,
    "update": evidence_pb2.ROW_OP_UPDATE,
    "delete": evidence_pb2.ROW_OP_DELETE,
}
_STATUSES = {
    "graded": verdict_pb2.VERDICT_STATUS_GRADED,
    "ungradable": verdict_pb2.VERDICT_STATUS_UNGRADABLE,
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EpisodeReference(_Body):
    """A sealed episode."""

    env_server: str = Field(max_length=300, examples=["127.0.0.1:7001"])
    """host:port of the gRPC door, as in the Episode message."""
    episode_id: str = Field(min_length=1, max_length=200)


class GradeRequest(_Body):
    """Body of POST /v1/grade."""

    request_id: str = Field(min_length=1, max_length=200)
    """Chosen by the caller; the same id gets the same verdict."""
    task_id: str = Field(min_length=1, max_length=200, examples=["orders/cancel-placed"])
    task_hash: str = Field(pattern="^[0-9a-f]{64}$")
    episode: EpisodeReference
    final_reply: str = Field(max_length=1_000_000)
    """The agent's last message to the user; empty when there was none."""


class GradeDoor:
    """What answers a grade request."""

    def __init__(
        self,
        checkset: Checkset,
        golden: GoldenSource,
        source: EvidenceClient,
        allowed: AllowList,
        instruments: Instruments,
        runner: CheckRunner,
        replay_capacity: int,
    ):
        self._checkset = checkset
        self._golden = golden
        self._source = source
        self._allowed = allowed
        self._instruments = instruments
        self._runner = runner
        self._replay: Replay[dict[str, Any]] = Replay(replay_capacity)

    async def answer(self, request: GradeRequest) -> dict[str, Any]:
        """The verdict as JSON; raises an EnvfarmError when there can be none."""
        fingerprint = content_hash(request.model_dump())
        return await self._replay.answer(
            request.request_id, fingerprint, lambda: self._grade(request)
        )

    async def _grade(self, request: GradeRequest) -> dict[str, Any]:
        attempt = Attempt(
            task_id=request.task_id,
            task_hash=request.task_hash,
            final_reply=request.final_reply,
        )
        target = self._allowed.target(request.episode.env_server)
        state = EpisodeState(self._source, target, request.episode.episode_id)
        checks = self._checkset.find(attempt.task_id)
        graded = await grade(attempt, checks, self._golden, state, self._runner)
        self._count(attempt, graded)
        return to_json(to_proto(request.request_id, attempt, graded))

    def _count(self, attempt: Attempt, graded: Graded) -> None:
        reward = graded.decision.reward
        self._instruments.count(
            "envfarm_verdicts_total",
            domain=attempt.task_id.partition("/")[0],
            status=graded.decision.status,
            reward="none" if reward is None else str(int(reward)),
        )
        for result in graded.results:
            self._instruments.count(
                "envfarm_checks_total", kind=result.kind, passed=str(result.passed).lower()
            )
        self._instruments.observe("envfarm_grade_seconds", graded.seconds, input="episode")


def add_routes(
    app: FastAPI, answer: Callable[[GradeRequest], Awaitable[dict[str, Any]]], client_token: str
) -> None:
    """Serve POST /v1/grade to whoever holds the client token."""

    async def require_client(authorization: Annotated[str | None, Header()] = None) -> None:
        auth.require(authorization, "client", {"client": client_token})

    @app.post("/v1/grade", summary="Grade a sealed episode", dependencies=[Depends(require_client)])
    async def grade_episode(request: GradeRequest) -> JSONResponse:
        return JSONResponse(await answer(request))


def to_proto(request_id: str, attempt: Attempt, graded: Graded) -> verdict_pb2.Verdict:
    """The Verdict message; `reward` stays unset unless graded."""
    decision, evidence = graded.decision, graded.evidence
    episode_id = evidence.episode_id if evidence else ""
    identity = [request_id, episode_id, graded.checks_hash, grader_hash()]
    verdict = verdict_pb2.Verdict(
        verdict_id="v-" + content_hash(identity)[:32],
        request_id=request_id,
        task=task_pb2.TaskRef(task_id=attempt.task_id, task_hash=attempt.task_hash),
        status=_STATUSES[decision.status],  # pyright: ignore[reportArgumentType]
        checks=[
            verdict_pb2.CheckResult(
                name=result.name,
                kind=result.kind,
                passed=result.passed,
                expected=result.expected,
                observed=result.observed,
                judge=result.judge,
            )
            for result in graded.results
        ],
        diff=[_row_change(change) for change in evidence.changes] if evidence else [],
        checks_hash=graded.checks_hash,
        grader_hash=grader_hash(),
        initial_state_hash=evidence.initial_state_hash if evidence else "",
        final_state_hash=evidence.final_state_hash if evidence else "",
        ungradable_reason=decision.reason,
        seconds=graded.seconds,
    )
    if decision.reward is not None:
        verdict.reward = decision.reward
    return verdict


def to_json(verdict: verdict_pb2.Verdict) -> dict[str, Any]:
    """Every field by its proto name; only `reward` may be absent."""
    return json_format.MessageToDict(
        verdict, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _row_change(change: Change) -> evidence_pb2.RowChange:
    return evidence_pb2.RowChange(
        table=change.table,
        key_json=change.key,
        op=_OPS[change.op],  # pyright: ignore[reportArgumentType]
        before_json=change.before,
        after_json=change.after,
    )
