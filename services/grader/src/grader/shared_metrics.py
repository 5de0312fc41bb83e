"""Metrics of several workers as one: whichever is scraped tells the sum, and what each process uses.

Counters and histograms go on over the death of a worker; the grader has no gauges.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from envfarm_common.metrics import Instruments
from prometheus_client import (
    CollectorRegistry,
    Metric,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from grader.settings import count_in_files

READY = "ready."
"""Before the number of a worker: its ready file in the folder that they share."""


class SharedInstruments(Instruments):
    """Counts in files of the folder that the workers share; renders all workers."""

    def __init__(self, shared: Path):
        self._shared, self._counts = shared, shared / "metrics"
        self._counts.mkdir(exist_ok=True)
        count_in_files(self._counts)
        values.ValueClass = values.MultiProcessValue()
        super().__init__("grader")

    def render(self) -> bytes:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._counts))
        registry.register(_Processes(self._shared))
        return generate_latest(registry)


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
