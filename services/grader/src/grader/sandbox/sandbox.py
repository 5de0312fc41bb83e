"""Runs a check's code in a child process that can compute and nothing else.

Inside: a seccomp allow-list (no files, network, processes or signals), no environment, no inherited
descriptor, bounded memory, CPU and wall time. Only a whole, well-formed frame on the result pipe from
a child that then ended with status 0 is an answer.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from grader.sandbox import seccomp
from grader.verdict import CannotRun

_ROOT = str(Path(__file__).parents[2])
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from grader.sandbox.child import main; main(*map(int, sys.argv[2:]))"
)
_MAX_FRAME = 60_000
"""Below the size of a pipe's buffer, so that the child never waits for us to read."""
_CHILDREN_AT_ONCE = 2
TEST_CPU_SECONDS = 5
"""Effects of a dataset's servers may be megabytes."""

_PROBE = """\
import os
def check(changes, reply, rows):
    attempts = (lambda: open("/dev/null"), os.fork, lambda: os.write(1, b"x"), lambda: os.kill(1, 0))
    for attempt in attempts:
        try:
            attempt()
        except PermissionError:
            continue
        return "it lets through what it must refuse"
    return not os.environ or "it has an environment"
"""


@dataclass(frozen=True, slots=True)
class Limits:
    memory_bytes: int = 512 << 20
    cpu_seconds: int = 2
    wall_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the code said; never an error of a check."""

    outcome: Literal["pass", "fail", "ask", "error"]
    """The last two are of a dataset's test alone: see `dataset_test.py`."""
    detail: str


class Sandbox:
    """At most two children at once."""

    def __init__(self, limits: Limits | None = None):
        self._limits = limits or Limits()
        self._room = asyncio.Semaphore(_CHILDREN_AT_ONCE)

    async def run(self, code: str, changes: Any, reply: str, rows: Any) -> Outcome:
        """Call `check(changes, reply, rows)` of `code`; CannotRun when it gave no answer."""
        outcome = await self._run(
            {"code": code, "changes": changes, "reply": reply, "rows": rows}, self._limits
        )
        if outcome.outcome == "error":
            raise CannotRun(f"the code failed: {outcome.detail}")
        return outcome

    async def run_test(self, code: str, context: Any, answers: dict[str, bool]) -> Outcome:
        """Call a dataset's test with what it may look at and what the judge is known to answer;
        CannotRun when it gave no answer at all."""
        limits = replace(self._limits, cpu_seconds=max(TEST_CPU_SECONDS, self._limits.cpu_seconds))
        return await self._run({"code": code, "context": context, "answers": answers}, limits)

    async def _run(self, payload: Any, limits: Limits) -> Outcome:
        async with self._room:
            return await asyncio.to_thread(_run, json.dumps(payload).encode(), limits)


@cache
def obstacle() -> str:
    """Why there can be no sandbox here; empty when a child was locked in and could do nothing."""
    if not seccomp.supported():
        return "seccomp is known for Linux on x86_64 and aarch64 only"
    payload = {"code": _PROBE, "changes": [], "reply": "", "rows": {}}
    try:
        outcome = _run(json.dumps(payload).encode(), Limits())
    except CannotRun as error:
        return str(error)
    return "" if outcome.outcome == "pass" else outcome.detail


def _run(payload: bytes, limits: Limits) -> Outcome:
    read_end, write_end = os.pipe()
    try:
        numbers = map(str, (write_end, limits.memory_bytes, limits.cpu_seconds))
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _START, _ROOT, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write_end,),
            env={},
            cwd="/",
            start_new_session=True,
        ) as child:
            try:
                child.communicate(payload, timeout=limits.wall_seconds)
            except subprocess.TimeoutExpired as error:
                raise CannotRun(f"the code ran longer than {limits.wall_seconds:g} s") from error
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        os.set_blocking(read_end, False)
        return _answer(_read(read_end), child.returncode, limits)
    finally:
        os.close(read_end)
        os.close(write_end)


def _read(read_end: int) -> bytes:
    try:
        return os.read(read_end, _MAX_FRAME + 1)
    except BlockingIOError:
        return b""


def _answer(data: bytes, status: int, limits: Limits) -> Outcome:
    if status != 0:
        raise CannotRun(f"the code ended without an answer ({_ended(status, limits)})")
    if len(data) < 4 or len(data) > _MAX_FRAME or len(data) != 4 + int.from_bytes(data[:4], "big"):
        raise CannotRun("the code gave no well-formed answer")
    try:
        value = json.loads(data[4:])
    except ValueError as error:
        raise CannotRun("the code gave no well-formed answer") from error
    match value:
        case {
            "outcome": "pass" | "fail" | "ask" | "error" as outcome,
            "detail": str(detail),
        } if len(value) == 2:
            return Outcome(outcome, detail)
        case _:
            raise CannotRun("the code gave no well-formed answer")


def _ended(status: int, limits: Limits) -> str:
    if -status in (signal.SIGXCPU, signal.SIGKILL):
        return f"more than {limits.cpu_seconds} s of CPU"
    return f"status {status}" if status > 0 else signal.Signals(-status).name
