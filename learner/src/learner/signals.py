"""SIGTERM and SIGINT ask for an end between two updates; the second one ends the process at once."""

import signal
import threading
from types import FrameType


def stop_on_signals() -> threading.Event:
    """Set by the first signal."""
    stop = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return stop
