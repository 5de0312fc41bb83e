"""What runs inside the sandbox: read everything, lock the door, call `check` or a dataset's test, answer
once.

Standard library only. The answer is one frame on the result pipe: four bytes of length, then the
JSON object {"outcome": "pass" | "fail" | "error", "detail": text}. Nothing else counts: prints go
nowhere, an exception is an error, and an exit without a frame is no answer. What a dataset's test
answers besides: `dataset_test.py`.
"""

import json
import os
import resource
import sys
from typing import Any

from grader.sandbox import dataset_test, seccomp

MODULES = (
    "_strptime",
    "bisect",
    "calendar",
    "collections",
    "datetime",
    "decimal",
    "fractions",
    "functools",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "statistics",
    "string",
    "unicodedata",
)
"""What a check may import; loaded before the door is locked, because no file opens after it."""

MAX_DETAIL = 4_000


class _Nowhere:
    """Takes whatever is printed."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def main(result_fd: int, memory_bytes: int, cpu_seconds: int) -> None:
    """Never returns."""
    payload = json.loads(sys.stdin.buffer.read())
    is_test = "context" in payload
    for module in (*MODULES, *(dataset_test.MODULES if is_test else ())):
        __import__(module)
    code = compile(payload["code"], dataset_test.FILE if is_test else "<check>", "exec")
    sys.stdout = sys.stderr = _Nowhere()
    # Python itself sets LC_CTYPE where there is no locale.
    os.environ.clear()  # noqa: TID251
    sys.path.clear()
    sys.meta_path.clear()
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
    ):
        resource.setrlimit(limit, (value, value))
    seccomp.enter(result_fd)
    outcome, detail = dataset_test.run(code, payload) if is_test else _judge(code, payload)
    if len(detail) > MAX_DETAIL and not is_test:
        detail = f"{detail[:MAX_DETAIL]}… ({len(detail)} characters)"
    frame = json.dumps({"outcome": outcome, "detail": detail}).encode()
    os.write(result_fd, len(frame).to_bytes(4, "big") + frame)
    os._exit(0)


def _judge(code: Any, payload: dict[str, Any]) -> tuple[str, str]:
    names: dict[str, Any] = {"__name__": "check"}
    try:
        exec(code, names)  # noqa: S102
        answer = names["check"](payload["changes"], payload["reply"], payload["rows"])
    except AssertionError as error:
        return "fail", str(error) or "an assertion does not hold"
    except BaseException as error:  # noqa: BLE001
        return "error", f"{type(error).__name__}: {error}"
    if answer is True:
        return "pass", ""
    if answer is False:
        return "fail", "the check says no"
    if type(answer) is str and answer:
        return "fail", answer
    return "error", f"check() must answer True, False or a text, not {type(answer).__name__}"
