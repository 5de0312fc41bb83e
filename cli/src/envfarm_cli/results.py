"""With --json stdout holds results, one JSON object a line, and nothing else."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO

_stdout: TextIO | None = None
"""The process's own, inside `results_only`."""


@contextmanager
def results_only() -> Iterator[None]:
    """Inside, only results reach stdout; what anything else prints there goes to stderr."""
    global _stdout
    _stdout = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _stdout = None


def write_result(value: dict[str, Any]) -> None:
    """One line of JSON on stdout."""
    out = _stdout or sys.stdout
    out.write(json.dumps(value, ensure_ascii=False) + "\n")
    out.flush()
