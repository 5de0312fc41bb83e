"""Metrics of several workers as one: whichever worker is scraped tells the sum of all.

Counters and histograms go on over the death of a worker, gauges forget it. What a process itself
uses is told worker by worker.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from envfarm_common.metrics import Instruments
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

FOLDER = "metrics"
"""Where all workers count, in the folder that they share; one file for each process and kind."""
READY = "ready."
"""Before the number of a worker: its ready file in the folder that they share."""


class SharedInstruments(Instruments):
    """Instruments of a worker that was started with PROMETHEUS_MULTIPROC_DIR; renders all workers."""

    def __init__(self, shared: Path):
        super().__init__("env-server")
        self._shared = shared

    def render(self) -> bytes:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._shared / FOLDER))
        registry.register(_Processes(self._shared))
        return generate_latest(registry)


def instruments_of(shared: Path | None) -> Instruments:
    """Of an env-server alone, or of a worker whose folder with the others is `shared`."""
    return SharedInstruments(shared) if shared else Instruments("env-server")


def forget(shared: Path, pid: int) -> None:
    """The gauges of a dead worker are told no more."""
    mark_process_dead(pid, str(shared / FOLDER))


class _Processes(Collector):
    """CPU, memory and descriptors of each worker that is ready."""

    def __init__(self, shared: Path):
        self._shared = shared

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for worker, pid in _workers(self._shared):
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():
                samples = [s._replace(labels={"worker": worker}) for s in metric.samples]
                metric.samples.clear()
                found.setdefault(metric.name, metric).samples.extend(samples)
        return found.values()


def _workers(shared: Path) -> Iterator[tuple[str, int]]:
    for file in sorted(shared.glob(READY + "*")):
        try:
            yield file.name.removeprefix(READY), json.loads(file.read_text())["pid"]
        except FileNotFoundError:
            # It ended a moment ago.
            continue
