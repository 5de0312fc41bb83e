"""Bounded waiting for a condition."""

import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.005


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    """Return as soon as `condition()` is true; AssertionError naming `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(INTERVAL_SECONDS)
