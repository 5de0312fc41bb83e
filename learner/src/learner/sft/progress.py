"""What a supervised run shows and writes while it goes: a line now and then, every step as JSON."""

import json
import sys
import time
from pathlib import Path
from typing import Any


class Progress:
    """Rank 0's view; `file` keeps the steps up to `first`, which a checkpoint holds."""

    def __init__(self, file: Path, *, first: int, steps: int, report_every: int):
        self._file, self._steps, self._every = file, steps, report_every
        self._first = first
        self._started = time.monotonic()
        self._window: list[tuple[float, int]] = []
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        file.write_text("".join(lines[:first]))

    def step(self, facts: dict[str, Any]) -> None:
        """One optimizer step; `facts` are its numbers."""
        with self._file.open("a") as file:
            file.write(json.dumps(facts, sort_keys=True) + "\n")
        self._window.append((facts["loss"], facts["tokens"]))
        done = facts["step"]
        if done % self._every and done != self._steps:
            return
        elapsed = time.monotonic() - self._started
        left = elapsed / (done - self._first) * (self._steps - done)
        losses, tokens = zip(*self._window, strict=True)
        seconds = sum(tokens) / max(facts["tokens_per_second"], 1e-9)
        print(
            f"step {done}/{self._steps}  loss {sum(losses) / len(losses):.4f}  "
            f"lr {facts['lr']:.2e}  norm {facts['grad_norm']:.2f}  "
            f"{sum(tokens) / max(seconds, 1e-9):,.0f} tokens/s  {clock(left)} left",
            file=sys.stderr,
            flush=True,
        )
        self._window.clear()


def clock(seconds: float) -> str:
    """1:05 or 2:03:04."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
