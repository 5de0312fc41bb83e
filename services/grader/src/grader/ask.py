"""The bodies of the HTTP door, and how they are read.

The tables of a `state` stay bytes: ten megabytes of them are hashed, and only a table whose bytes are
new here is looked into.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from envfarm.canonical import content_hash
from envfarm.errors import InvalidArgument
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grader.conversation import Conversation, plain
from grader.once import require_members_once, require_once

MAX_BATCH = 256
M = TypeVar("M", bound=BaseModel)


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    """A grade request in one pass; what is small is looked at by `GradeRequest`."""

    request_id: msgspec.Raw
    task_id: msgspec.Raw
    task_hash: msgspec.Raw
    final_reply: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    episode: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    dsn: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    state: dict[str, msgspec.Raw] | None = None
    conversation: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SENT = msgspec.json.Decoder(_Sent)
_SENT_NAMES = [field.name for field in msgspec.structs.fields(_Sent)]
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class SentTable:
    """The final rows of one table: a JSON array as it was sent, and the hash of its bytes."""

    text: msgspec.Raw | bytes
    digest: str

    @classmethod
    def of(cls, text: msgspec.Raw | bytes) -> "SentTable":
        return cls(text, hashlib.sha256(text).hexdigest())

    def rows(self, name: str) -> list[bytes]:
        """Each row as it was sent; InvalidArgument when it is no array."""
        try:
            return list(map(bytes, _RAW_LIST.decode(self.text)))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"state.{name}: {error}") from error


State = dict[str, SentTable]


def state_fingerprint(state: State) -> dict[str, str]:
    """What tells two states apart as they were sent."""
    return {name: table.digest for name, table in state.items()}


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EpisodeReference(Body):
    """A sealed episode."""

    env_server: str = Field(max_length=300, examples=["127.0.0.1:7001"])
    """host:port of the gRPC door, as in the Episode message."""
    episode_id: str = Field(min_length=1, max_length=200)


class GradeRequest(Body):
    """Body of POST /v1/grade. Exactly one of `episode`, `dsn` and `state` says what to grade."""

    request_id: str = Field(min_length=1, max_length=200)
    """Chosen by the caller; the same id gets the same verdict."""
    task_id: str = Field(min_length=1, max_length=200, examples=["orders/cancel-placed"])
    task_hash: str = Field(pattern="^[0-9a-f]{64}$")
    episode: EpisodeReference | None = None
    dsn: str | None = Field(default=None, min_length=1, max_length=1000)
    """Host, port, database and user of a target that the operator allowed; nothing else."""
    state: dict[str, list[dict[str, Any]]] | None = None
    """All final rows of every table of the world; what a row holds: GET /v1/tasks/{id}/schema."""
    final_reply: str = Field(default="", max_length=1_000_000)
    """The agent's last message to the user; empty when there was none."""
    conversation: Conversation | None = None
    """All messages, for a task whose dataset's test may look at them; other tasks need none."""


class BatchRequest(Body):
    """Body of POST /v1/grade/batch."""

    requests: list[GradeRequest] = Field(min_length=1, max_length=MAX_BATCH)


class RegradeRequest(Body):
    """Body of POST /v1/regrade."""

    verdict_id: str = Field(min_length=1, max_length=200)
    checks: Annotated[str, Field(pattern="^(current|original|[0-9a-f]{64})$")] = "current"
    """`current` checks, the `original` ones, or those that a verdict names as `rules_hash`."""


Input = Literal["episode", "dsn", "state"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A grade request that holds together."""

    request_id: str
    task_id: str
    task_hash: str
    final_reply: str
    fingerprint: str
    episode: tuple[str, str] | None = None
    """env-server and episode id."""
    dsn: str | None = None
    state: State | None = None
    conversation: list[dict[str, Any]] | None = None

    @property
    def input(self) -> Input:
        return "episode" if self.episode else "dsn" if self.dsn else "state"


def read_grade(body: bytes) -> Ask:
    """InvalidArgument that names the field when it is no grade request."""
    try:
        sent = _SENT.decode(body)
        require_members_once(body, {name: getattr(sent, name) for name in _SENT_NAMES})
    except msgspec.ValidationError as error:
        # One mistake stops the fast reader; the slow one names them all.
        read(GradeRequest, body)
        raise InvalidArgument(f"body: {error}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"body: {error}") from error
    state = None
    if sent.state is not None:
        if not all(bytes(memoryview(text)[:1]) == b"[" for text in sent.state.values()):
            read(GradeRequest, body)
            raise InvalidArgument("body: state: a table is an array of rows")
        state = {name: SentTable.of(text) for name, text in sent.state.items()}
        sent.state = None
    request = read(GradeRequest, msgspec.json.encode(sent))
    given = [request.episode is not None, request.dsn is not None, state is not None]
    if sum(given) != 1:
        raise InvalidArgument("body: exactly one of episode, dsn and state says what to grade")
    return as_ask(request, state)


def as_ask(request: GradeRequest, state: State | None) -> Ask:
    """A checked request, with the tables that were sent beside it; InvalidArgument when it holds a
    number that is no double."""
    told = request.model_dump(exclude={"conversation"})
    said = None if request.conversation is None else plain(request.conversation)
    content = [told, state_fingerprint(state or {})]
    try:
        fingerprint = content_hash(content if said is None else [*content, said])
    except ValueError as error:
        raise InvalidArgument(f"body: conversation: {error}") from error
    return Ask(
        request_id=request.request_id,
        task_id=request.task_id,
        task_hash=request.task_hash,
        final_reply=request.final_reply,
        fingerprint=fingerprint,
        episode=(request.episode.env_server, request.episode.episode_id)
        if request.episode
        else None,
        dsn=request.dsn,
        state=state,
        conversation=said,
    )


def read_batch(body: bytes) -> list[bytes]:
    """The single bodies of a batch, not looked into yet; InvalidArgument when it is no batch."""
    try:
        fields = _RAW_OBJECT.decode(body)
        require_members_once(body, fields)
        if set(fields) != {"requests"}:
            raise InvalidArgument("body: `requests` and nothing else")
        requests = _RAW_LIST.decode(fields["requests"])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"body: {error}") from error
    if not 1 <= len(requests) <= MAX_BATCH:
        raise InvalidArgument(f"requests: {len(requests)} of them; 1 to {MAX_BATCH} are allowed")
    return list(map(bytes, requests))


def read(model: type[M], body: bytes) -> M:
    """A small body; InvalidArgument that names the field when it does not fit the model."""
    try:
        found = model.model_validate_json(body)
        require_once(body)
    except ValidationError as error:
        parts = [
            f"{'.'.join(map(str, item['loc'])) or 'body'}: {item['msg']}" for item in error.errors()
        ]
        raise InvalidArgument("; ".join(parts)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"body: {error}") from error
    return found
