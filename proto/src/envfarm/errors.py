"""The errors of envfarm, and the one table that gives each its code on every wire.

    EnvfarmError
    ├── RequestError         the caller's doing: InvalidArgument · Unauthenticated · WrongScope
    │                        · TooLarge
    ├── EpisodeError         UnknownTask · BrokenWorld · UnknownEpisode · WrongState · LeaseExpired
    │                        · NoCapacity · DatabaseError · DeadlineError · DrainingError
    │                        · ForeignServerError
    ├── PolicyError          EngineError · VersionMismatch · PromptTooLong · EndpointBusy
    │                        · EndpointRefused
    ├── UserModelError       the simulated user failed
    ├── GradingError         NoChecks · EvidenceError · GraderError · UnknownVerdict
    ├── StreamError          Redis; BadGroup
    ├── LearnerError         CheckpointError · FencedError
    ├── ConfigError          settings or a user's file
    └── InternalError        ours, without a better name

A tool that refuses a call is not an error but an observation; how a rollout ended is a status
(trajectory.proto). Foreign exceptions are attributed where our code calls them, by `boundary`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from envfarm.v1 import errors_pb2

Code = errors_pb2.ErrorCode

TRAILER = "envfarm-error-bin"
"""gRPC trailing metadata key that carries a serialized ErrorDetail."""


class EnvfarmError(Exception):
    """Base. `message` says what and where, `hint` what to do next."""

    def __init__(self, message: str, *, hint: str = "", retry_after_seconds: float = 0.0):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retry_after_seconds = retry_after_seconds


class RequestError(EnvfarmError):
    """The caller's request cannot be served as it is."""


class InvalidArgument(RequestError): ...


class Unauthenticated(RequestError): ...


class WrongScope(RequestError): ...


class TooLarge(RequestError): ...


class EpisodeError(EnvfarmError):
    """Crossing into the env-server."""


class UnknownTask(EpisodeError): ...


class BrokenWorld(EpisodeError): ...


class UnknownEpisode(EpisodeError): ...


class WrongState(EpisodeError): ...


class LeaseExpired(EpisodeError): ...


class NoCapacity(EpisodeError): ...


class DatabaseError(EpisodeError): ...


class DeadlineError(EpisodeError): ...


class DrainingError(EpisodeError): ...


class ForeignServerError(EpisodeError):
    """An MCP server that a world mounts ended, hung or refused to start."""


class PolicyError(EnvfarmError):
    """Crossing into an engine."""


class EngineError(PolicyError): ...


class VersionMismatch(PolicyError): ...


class PromptTooLong(PolicyError): ...


class EndpointBusy(PolicyError): ...


class EndpointRefused(PolicyError): ...


class UserModelError(EnvfarmError): ...


class GradingError(EnvfarmError):
    """Crossing into the grader, or inside it."""


class NoChecks(GradingError): ...


class EvidenceError(GradingError): ...


class GraderError(GradingError): ...


class UnknownVerdict(GradingError): ...


class StreamError(EnvfarmError):
    """Crossing into Redis."""


class BadGroup(StreamError): ...


class LearnerError(EnvfarmError): ...


class CheckpointError(LearnerError): ...


class FencedError(LearnerError): ...


class ConfigError(EnvfarmError): ...


class InternalError(EnvfarmError): ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """How one class looks on each wire."""

    code: int
    grpc: grpc.StatusCode
    http: int
    retryable: bool = False


_S = grpc.StatusCode

WIRE: dict[type[EnvfarmError], Wire] = {
    InvalidArgument: Wire(
        code=Code.ERROR_CODE_INVALID_ARGUMENT, grpc=_S.INVALID_ARGUMENT, http=422
    ),
    Unauthenticated: Wire(code=Code.ERROR_CODE_UNAUTHENTICATED, grpc=_S.UNAUTHENTICATED, http=401),
    WrongScope: Wire(code=Code.ERROR_CODE_WRONG_SCOPE, grpc=_S.PERMISSION_DENIED, http=403),
    TooLarge: Wire(code=Code.ERROR_CODE_TOO_LARGE, grpc=_S.OUT_OF_RANGE, http=413),
    UnknownTask: Wire(code=Code.ERROR_CODE_UNKNOWN_TASK, grpc=_S.NOT_FOUND, http=404),
    BrokenWorld: Wire(code=Code.ERROR_CODE_BROKEN_WORLD, grpc=_S.FAILED_PRECONDITION, http=500),
    UnknownEpisode: Wire(code=Code.ERROR_CODE_UNKNOWN_EPISODE, grpc=_S.NOT_FOUND, http=404),
    WrongState: Wire(code=Code.ERROR_CODE_WRONG_STATE, grpc=_S.FAILED_PRECONDITION, http=409),
    LeaseExpired: Wire(code=Code.ERROR_CODE_LEASE_EXPIRED, grpc=_S.FAILED_PRECONDITION, http=410),
    NoCapacity: Wire(
        code=Code.ERROR_CODE_NO_CAPACITY, grpc=_S.RESOURCE_EXHAUSTED, http=429, retryable=True
    ),
    DatabaseError: Wire(code=Code.ERROR_CODE_DATABASE, grpc=_S.UNAVAILABLE, http=503),
    DeadlineError: Wire(code=Code.ERROR_CODE_DEADLINE, grpc=_S.DEADLINE_EXCEEDED, http=504),
    DrainingError: Wire(
        code=Code.ERROR_CODE_DRAINING, grpc=_S.UNAVAILABLE, http=503, retryable=True
    ),
    ForeignServerError: Wire(code=Code.ERROR_CODE_FOREIGN_SERVER, grpc=_S.UNAVAILABLE, http=502),
    EngineError: Wire(code=Code.ERROR_CODE_ENGINE, grpc=_S.UNAVAILABLE, http=502, retryable=True),
    VersionMismatch: Wire(
        code=Code.ERROR_CODE_VERSION_MISMATCH, grpc=_S.FAILED_PRECONDITION, http=409
    ),
    PromptTooLong: Wire(code=Code.ERROR_CODE_PROMPT_TOO_LONG, grpc=_S.OUT_OF_RANGE, http=413),
    EndpointBusy: Wire(
        code=Code.ERROR_CODE_ENDPOINT_BUSY, grpc=_S.RESOURCE_EXHAUSTED, http=429, retryable=True
    ),
    EndpointRefused: Wire(
        code=Code.ERROR_CODE_ENDPOINT_REFUSED, grpc=_S.FAILED_PRECONDITION, http=502
    ),
    UserModelError: Wire(
        code=Code.ERROR_CODE_USER_MODEL, grpc=_S.UNAVAILABLE, http=502, retryable=True
    ),
    NoChecks: Wire(code=Code.ERROR_CODE_NO_CHECKS, grpc=_S.FAILED_PRECONDITION, http=409),
    EvidenceError: Wire(code=Code.ERROR_CODE_EVIDENCE, grpc=_S.DATA_LOSS, http=500),
    GraderError: Wire(code=Code.ERROR_CODE_GRADER, grpc=_S.UNAVAILABLE, http=502, retryable=True),
    UnknownVerdict: Wire(code=Code.ERROR_CODE_UNKNOWN_VERDICT, grpc=_S.NOT_FOUND, http=404),
    StreamError: Wire(code=Code.ERROR_CODE_STREAM, grpc=_S.UNAVAILABLE, http=503, retryable=True),
    BadGroup: Wire(code=Code.ERROR_CODE_BAD_GROUP, grpc=_S.DATA_LOSS, http=500),
    CheckpointError: Wire(code=Code.ERROR_CODE_CHECKPOINT, grpc=_S.DATA_LOSS, http=500),
    FencedError: Wire(code=Code.ERROR_CODE_FENCED, grpc=_S.ABORTED, http=409),
    ConfigError: Wire(code=Code.ERROR_CODE_CONFIG, grpc=_S.FAILED_PRECONDITION, http=500),
    InternalError: Wire(code=Code.ERROR_CODE_INTERNAL, grpc=_S.INTERNAL, http=500),
}

BY_CODE: dict[int, type[EnvfarmError]] = {wire.code: cls for cls, wire in WIRE.items()}


def to_detail(error: EnvfarmError) -> errors_pb2.ErrorDetail:
    wire = WIRE[type(error)]
    return errors_pb2.ErrorDetail(
        code=wire.code,  # pyright: ignore[reportArgumentType]
        message=error.message,
        hint=error.hint,
        retryable=wire.retryable,
        retry_after_seconds=error.retry_after_seconds,
    )


def from_detail(detail: errors_pb2.ErrorDetail) -> EnvfarmError:
    """The error that the other side raised; InternalError for a code this side does not know."""
    cls = BY_CODE.get(detail.code, InternalError)
    return cls(detail.message, hint=detail.hint, retry_after_seconds=detail.retry_after_seconds)


def from_rpc(error: grpc.RpcError, otherwise: type[EnvfarmError], what: str = "") -> EnvfarmError:
    """The EnvfarmError behind an RpcError; `otherwise` when the trailer is absent (a dead peer)."""
    trailing = getattr(error, "trailing_metadata", None)
    for key, value in (trailing() if trailing else None) or ():
        if key == TRAILER:
            return from_detail(errors_pb2.ErrorDetail.FromString(value))
    code = getattr(error, "code", lambda: None)()
    details = getattr(error, "details", lambda: None)() or str(error)
    prefix = f"{what}: " if what else ""
    return otherwise(f"{prefix}{getattr(code, 'name', 'UNKNOWN')}: {details}")


@contextmanager
def boundary(
    otherwise: type[EnvfarmError], what: str, *foreign: type[BaseException]
) -> Iterator[None]:
    """Attribute foreign exceptions to the boundary they crossed; ours pass through untouched."""
    try:
        yield
    except EnvfarmError:
        raise
    except grpc.RpcError as error:
        raise from_rpc(error, otherwise, what) from error
    except foreign as error:
        raise otherwise(f"{what}: {type(error).__name__}: {error}") from error
