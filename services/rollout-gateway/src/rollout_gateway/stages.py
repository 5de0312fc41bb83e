"""Where rollouts are right now, and how long they stay there: open, generate, tool, grade, publish."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from envfarm_common import tracing
from envfarm_common.metrics import Instruments


class Stages:
    def __init__(self, instruments: Instruments):
        self._instruments = instruments
        self._running: Counter[str] = Counter()

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        self._shift(stage, 1)
        try:
            with tracing.span(stage):
                yield
        finally:
            self._shift(stage, -1)
            self._instruments.observe(
                "envfarm_rollout_seconds", time.monotonic() - started, stage=stage
            )

    def _shift(self, stage: str, by: int) -> None:
        self._running[stage] += by
        self._instruments.set("envfarm_rollouts_running", self._running[stage], stage=stage)
