"""The gRPC door: the same answers as the HTTP door, without JSON in between."""

import grpc
import msgspec
from envfarm.errors import InvalidArgument
from envfarm.v1 import grader_service_pb2 as pb
from envfarm.v1.grader_service_pb2_grpc import GraderServiceServicer
from envfarm_common.grpc import authorization

from grader.ask import (
    Ask,
    EpisodeReference,
    GradeRequest,
    SentTable,
    as_ask,
    read,
)
from grader.door import GradeDoor
from grader.tokens import Tokens
from grader.verdict_wire import from_json

Context = grpc.aio.ServicerContext


class GraderService(GraderServiceServicer):
    def __init__(self, door: GradeDoor, tokens: Tokens):
        self._door = door
        self._tokens = tokens

    async def Grade(self, request: pb.GradeRequest, context: Context) -> pb.GradeResponse:
        caller = self._tokens.caller(authorization(context), "grade")
        ask = _ask(request)
        caller.may_see(ask.task_id)
        return pb.GradeResponse(verdict=from_json(await self._door.grade(ask)))

    async def GetVerdict(
        self, request: pb.GetVerdictRequest, context: Context
    ) -> pb.GetVerdictResponse:
        caller = self._tokens.caller(authorization(context), "read")
        found = self._door.verdict(request.verdict_id)
        caller.may_see(found["task"]["task_id"])
        return pb.GetVerdictResponse(verdict=from_json(found))


def _ask(request: pb.GradeRequest) -> Ask:
    """InvalidArgument, as for the HTTP door, when the request breaks a rule of `ask.py`."""
    given = request.WhichOneof("input")
    if given is None:
        raise InvalidArgument("exactly one of episode, dsn and state says what to grade")
    reference = EpisodeReference.model_construct(
        env_server=request.episode.env_server, episode_id=request.episode.episode_id
    )
    asked = GradeRequest.model_construct(
        request_id=request.request_id,
        task_id=request.task.task_id,
        task_hash=request.task.task_hash,
        episode=reference if given == "episode" else None,
        dsn=request.dsn if given == "dsn" else None,
        final_reply=request.final_reply,
    )
    body = asked.model_dump(mode="json", exclude={"conversation"})
    if request.conversation_json:
        body["conversation"] = _conversation(request.conversation_json)
    checked = read(GradeRequest, msgspec.json.encode(body))
    state = None
    if given == "state":
        state = {
            table.table: SentTable.of(f"[{','.join(table.rows_json)}]".encode())
            for table in request.state.tables
        }
        if len(state) != len(request.state.tables):
            raise InvalidArgument("state: a table is there twice")
    return as_ask(checked, state)


def _conversation(text: str) -> msgspec.Raw:
    try:
        return msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"conversation_json is no JSON: {error}") from error
