"""Metrics of several workers as one: whichever is scraped tells the sum, and what each process uses.

Counters and histograms go on over the death of a worker; gauges forget it.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from envfarm.metrics import Owner
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from envfarm_common.metrics import Instruments

FOLDER = "metrics"
"""Where all workers count, in the folder that they share; one file for each process and kind."""
READY = "ready."
"""Before the number of a worker: its ready file in the folder that they share."""


class WorkerInstruments(Instruments):
    """Of a worker that counts in `shared`/FOLDER, as PROMETHEUS_MULTIPROC_DIR told its process."""

    def __init__(self, owner: Owner, shared: Path):
        super().__init__(owner)
        self._shared = shared

    def render(self) -> bytes:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._shared / FOLDER))
        registry.register(_Processes(self._shared))
        return generate_latest(registry)


class _Processes(Collector):
    """CPU, memory and descriptors of each worker that is ready."""

    def __init__(self, shared: Path):
        self._shared = shared

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for worker, pid in _ready(self._shared):
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():
                samples = [s._replace(labels={"worker": worker}) for s in metric.samples]
                metric.samples.clear()
                found.setdefault(metric.name, metric).samples.extend(samples)
        return found.values()


def _ready(shared: Path) -> Iterator[tuple[str, int]]:
    for file in sorted(shared.glob(READY + "*")):
        try:
            yield file.name.removeprefix(READY), json.loads(file.read_text())["pid"]
        except FileNotFoundError:
            # It ended a moment ago.
            continue
