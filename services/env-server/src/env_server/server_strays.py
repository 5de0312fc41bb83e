"""Find and end the processes of a server wherever they are: by its account, or by a mark in their
environment where servers run under our own account."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

END_SECONDS = 5.0
POLL_SECONDS = 0.005
Finder = Callable[[], list[int]]


def of_account(number: int) -> Finder:
    """Processes whose real account it is."""

    def find() -> list[int]:
        return [pid for pid in _all() if _account(pid) == number]

    return find


def marked(variable: str, value: str) -> Finder:
    """Processes of our own account that were started with `variable` beginning with `value`."""
    mark = f"{variable}={value}".encode()

    def find() -> list[int]:
        return [pid for pid in _all() if any(w.startswith(mark) for w in _environment(pid))]

    return find


def end_all(find: Finder, seconds: float = END_SECONDS) -> bool:
    """SIGKILL until none is found; False when some still run after `seconds`. Blocks."""
    deadline = time.monotonic() + seconds
    while found := find():
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _all() -> Iterator[int]:
    own = os.getpid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != own:
            yield int(entry.name)


def _account(pid: int) -> int | None:
    """None for a process that has gone or is a zombie, which its parent has yet to bury."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    facts = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if facts.get("State", "Z")[0] in "ZX":
        return None
    return int(facts["Uid"].split()[0])


def _environment(pid: int) -> list[bytes]:
    # A zombie's is empty.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
