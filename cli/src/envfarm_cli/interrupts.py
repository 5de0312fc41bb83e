"""Signals as one exception, which waits while a step must not be torn apart.

SIGINT, SIGTERM and SIGHUP raise `Interrupted` in the main thread. Inside `held()` they are noted
and raised at its end, so that no child is started without being written down; `final()` ignores
them, so that stopping runs to its end. An event loop logs and loses what a handler raises inside
one of its callbacks; around a loop `cancelling()` cancels its task and raises at the end.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Somebody asked us to stop. Not an Exception, so that no handler of errors takes it."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        return 128 + self.number


_depth = 0
_pending: int | None = None
_cancel: Callable[[], None] | None = None


@contextmanager
def caught() -> Iterator[None]:
    """Take over the signals; in the main thread, around everything else."""
    before = {number: signal.signal(number, _on_signal) for number in CAUGHT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Signals that arrive inside are raised when the outermost block ends."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
    _deliver()


@contextmanager
def final() -> Iterator[None]:
    """Signals that arrive inside are forgotten: we are stopping already."""
    global _depth, _pending
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            _pending = None


@contextmanager
def cancelling(cancel: Callable[[], None]) -> Iterator[None]:
    """Signals that arrive inside call `cancel`, each time, and are raised when the block ends."""
    global _cancel
    before, _cancel = _cancel, cancel
    try:
        yield
    finally:
        _cancel = before
        _deliver()


def _on_signal(number: int, frame: FrameType | None) -> None:
    global _pending
    _pending = number
    _deliver()


def _deliver() -> None:
    global _pending
    if _depth or _pending is None:
        return
    if _cancel is not None:
        _cancel()
        return
    number, _pending = _pending, None
    raise Interrupted(number)
