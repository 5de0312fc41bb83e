"""A command on a terminal of its own, and the person who types in it."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.envfarm_command import ROOT


@dataclass
class Terminal:
    """What a person sees of the command, and their keys."""

    process: subprocess.Popen[bytes]
    screen: int
    seen: str = ""
    """Everything so far."""
    read_to: int = 0

    def until(self, text: str, seconds: float = 120.0) -> str:
        """What is new up to `text`; TimeoutError when it does not come."""
        deadline = time.monotonic() + seconds
        while (found := self.seen.find(text, self.read_to)) < 0:
            if time.monotonic() > deadline or not self._more():
                raise TimeoutError(f"no {text!r} after: {self.seen[self.read_to :]}")
        new = self.seen[self.read_to : found]
        self.read_to = found + len(text)
        return new

    def type(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def end(self, seconds: float = 60.0) -> tuple[int, str]:
        """Exit status, and what was said to the end."""
        while self._more():
            pass
        return self.process.wait(seconds), self.seen[self.read_to :]

    def _more(self) -> bool:
        """Read on; False when the command has closed its side."""
        try:
            data = os.read(self.screen, 65536) if self._has_data() else None
        except OSError:
            return False
        self.seen += (data or b"").decode(errors="replace")
        return data is None or bool(data)

    def _has_data(self) -> bool:
        return bool(select.select([self.screen], [], [], 0.2)[0])


@contextlib.contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """`envfarm` with `words` as its only process group, gone at the end."""
    screen, inside = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "envfarm_cli", *words],
        cwd=ROOT,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        start_new_session=True,
    )
    os.close(inside)
    try:
        yield Terminal(process, screen)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        os.close(screen)
