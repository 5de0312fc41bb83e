"""Instruments built from the registry; a name or label that is not listed is refused."""

from envfarm.metrics import BY_NAME, METRICS, Owner
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
_TYPES = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
# A gauge of several processes behind one command is the sum over those that live.
_MORE = {"gauge": {"multiprocess_mode": "livesum"}, "histogram": {"buckets": BUCKETS}}


class Instruments:
    """All instruments of one owner, and what its process uses, in a registry of its own."""

    def __init__(self, owner: Owner):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._made = {
            metric.name: _TYPES[metric.kind](
                *(metric.name, metric.meaning, metric.labels),
                registry=self.registry,
                **_MORE.get(metric.kind, {}),
            )
            for metric in METRICS
            if metric.owner == owner
        }

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        self._find(name, labels).inc(by)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        self._find(name, labels).set(value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        self._find(name, labels).observe(value)

    def render(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)

    def _find(self, name: str, labels: dict[str, str]):
        if name not in self._made:
            raise KeyError(
                f"{name} is not in the registry for this owner (known: {name in BY_NAME})"
            )
        return self._made[name].labels(**labels) if labels else self._made[name]
