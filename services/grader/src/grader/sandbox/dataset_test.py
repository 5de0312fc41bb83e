"""Runs a test function of a ThinkingBox dataset inside the sandbox. Standard library only.

    outcome  detail, as JSON
    pass     {"reward": number from 0 to 1, "asked": questions that the judge was asked}
    fail     {"why": the assertion, "line": of the test's file}
    error    {"why": any other exception, "line"}: a fault of the test or of what it was given
    ask      what the judge must be asked before the test can be run to its end

A judge that is asked about more than MAX_TEXT_BYTES answers nothing: the run fails.
"""

import json
from collections.abc import Callable
from typing import Any

from grader.sandbox.dataset_context import (
    MAX_TEXT_BYTES,
    Judge,
    TestContext,
    offer_modules,
)

ALIAS = "__tb_test_fn"
"""Name of the function in the code, as the importer wrote it."""
FILE = "<test>"
MODULES = (
    *("collections.abc", "copy", "dataclasses", "difflib", "enum", "hashlib", "random"),
    *("textwrap", "typing"),
)
"""What a test may import on top of a check's modules."""
MAX_WHY = 4_000


def run(code: Any, payload: dict[str, Any]) -> tuple[str, str]:
    """The outcome and its detail. Never raises."""
    offer_modules()
    judge = Judge(payload["answers"])
    names: dict[str, Any] = {"__name__": "dataset_test", "print": lambda *_, **__: None}
    try:
        context = TestContext(payload["context"])
        exec(code, names)  # noqa: S102
        function: Callable[..., Any] = names[ALIAS]
        outcome, detail = _passed(function(x=context, judge=judge), judge)
    except AssertionError as error:
        outcome, detail = "fail", _told(error, str(error) or "an assertion does not hold")
    except BaseException as error:  # noqa: BLE001
        outcome, detail = "error", _told(error, f"{type(error).__name__}: {error}")
    if judge.too_long:
        why = f"{judge.too_long} bytes were to be judged, at most {MAX_TEXT_BYTES} are"
        return "fail", json.dumps({"why": why, "line": 0})
    if judge.pending:
        return "ask", judge.pending
    return outcome, json.dumps(detail)


def _passed(value: Any, judge: Judge) -> tuple[str, dict[str, Any]]:
    if value is None:
        value = 1
    if isinstance(value, int | float) and 0 <= value <= 1:
        return "pass", {"reward": float(value), "asked": judge.asked}
    shown = repr(value)[:80]
    return "error", {"why": f"the test answered {shown}, which is no reward", "line": 0}


def _told(error: BaseException, why: str) -> dict[str, Any]:
    if len(why) > MAX_WHY:
        why = f"{why[:MAX_WHY]}… ({len(why)} characters)"
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return {"why": why, "line": line}
