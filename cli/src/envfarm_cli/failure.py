"""How a failure ends a command: one line that says what, where and what to do next."""

import errno
import sys

import grpc
import httpx
import redis
from envfarm.errors import (
    TRAILER,
    ConfigError,
    EnvfarmError,
    InternalError,
    RequestError,
    UnknownTask,
    from_rpc,
)

from envfarm_cli.output import FAILED, NOT_RUNNING, USAGE
from envfarm_cli.results import write_result

_IS_IT_UP = "is the stack up? see `envfarm status`"


class Failure(Exception):
    """The command cannot do what it was asked. `message` says what and where, `hint` what to do."""

    exit_code = FAILED

    def __init__(self, message: str, *, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.kind = type(self).__name__


class NotRunning(Failure):
    """There is no stack in the state folder, or nobody answers at the address."""

    exit_code = NOT_RUNNING


class BadInput(Failure):
    """An argument or a file of the user cannot be used as it is."""

    exit_code = USAGE


class ChildFailed(Failure):
    """A process that we started ended, or did not become ready."""


def as_failure(error: Exception) -> Failure:
    """Any error as a Failure; the command's top level and places that store an error use it."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, grpc.RpcError):
        if not _is_ours(error):
            return NotRunning(f"no answer: {from_rpc(error, InternalError)}", hint=_IS_IT_UP)
        error = from_rpc(error, InternalError)
    if isinstance(error, ConnectionError | redis.ConnectionError):
        return NotRunning(f"no answer: {error}", hint=_IS_IT_UP)
    if isinstance(error, EnvfarmError):
        wrong_input = isinstance(error, ConfigError | RequestError | UnknownTask)
        failure = (BadInput if wrong_input else Failure)(error.message, hint=error.hint)
        failure.kind = type(error).__name__
        return failure
    if isinstance(error, httpx.HTTPError):
        return NotRunning(
            f"no answer from {_url(error)}: {error or type(error).__name__}",
            hint=_IS_IT_UP,
        )
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Failure(f"{where}{error.strerror or error}", hint=_disk_hint(error))
    return Failure(
        f"unexpected {type(error).__name__}: {error}",
        hint="this is a fault of envfarm; run again with ENVFARM_DEBUG=1 to see where",
    )


def report(failure: Failure, *, as_json: bool) -> int:
    """Print it, on stderr for people and on stdout for machines; gives the exit code."""
    hint = f" — {one_line(failure.hint)}" if failure.hint else ""
    print(f"error: {one_line(failure.message)}{hint}", file=sys.stderr)
    if as_json:
        body = {
            "ok": False,
            "error": failure.kind,
            "message": failure.message,
            "hint": failure.hint,
            "exit_code": failure.exit_code,
        }
        write_result(body)
    return failure.exit_code


def one_line(text: str) -> str:
    """Without line breaks and control characters."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def _is_ours(error: grpc.RpcError) -> bool:
    """Whether the peer named the error, rather than not being there."""
    trailing = getattr(error, "trailing_metadata", lambda: None)() or ()
    return any(key == TRAILER for key, _ in trailing)


def _url(error: httpx.HTTPError) -> str:
    try:
        return str(error.request.url)
    except RuntimeError:
        return "the address"


def _disk_hint(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "free some room on that disk, or choose another folder with --state-dir"
    if error.errno in (errno.EACCES, errno.EROFS, errno.ENOTDIR):
        return "choose a folder that you may write to with --state-dir"
    return ""
