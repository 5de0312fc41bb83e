"""One process's metrics page at one moment, and what changed between two of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Every series of some processes, taken together at `at` (monotonic seconds)."""

    at: float
    values: Mapping[tuple[str, Labels], float]

    @classmethod
    def read(cls, at: float, pages: Iterable[str]) -> "Sample":
        """Series of equal name and labels add up; ValueError for what is no metrics page."""
        values: dict[tuple[str, Labels], float] = {}
        for page in pages:
            for family in text_string_to_metric_families(page):
                for point in family.samples:
                    key = (point.name, frozenset(point.labels.items()))
                    values[key] = values.get(key, 0.0) + point.value
        return cls(at, values)

    def total(self, name: str, **labels: str) -> float | None:
        """Sum of a metric's series that carry the labels; None when there is none."""
        asked = labels.items()
        found = [v for (n, has), v in self.values.items() if n == name and asked <= has]
        return sum(found) if found else None

    def highest(self, name: str) -> float | None:
        return max((v for (n, _), v in self.values.items() if n == name), default=None)

    def by(self, label: str, name: str) -> dict[str, float]:
        """Sums by the values of one label."""
        sums: dict[str, float] = {}
        for (found, has), value in self.values.items():
            if found == name and (key := dict(has).get(label)) is not None:
                sums[key] = sums.get(key, 0.0) + value
        return sums


@dataclass(frozen=True, slots=True)
class Interval:
    """Two samples, the later one last. A counter that went down began again at zero."""

    before: Sample
    after: Sample

    @property
    def seconds(self) -> float:
        return self.after.at - self.before.at

    def rate(self, name: str, **labels: str) -> float | None:
        """Events a second of a counter; None when it is not there."""
        asked = labels.items()
        keys = [key for key in self.after.values if key[0] == name and asked <= key[1]]
        return sum(self._grown(key) for key in keys) / self.seconds if keys else None

    def rates_by(self, label: str, name: str) -> dict[str, float]:
        """Events a second by the values of one label, none that stood still."""
        rates: dict[str, float] = {}
        for key in self.after.values:
            if key[0] == name and (value := dict(key[1]).get(label)) is not None:
                rates[value] = rates.get(value, 0.0) + self._grown(key) / self.seconds
        return {value: rate for value, rate in rates.items() if rate > 0}

    def mean(self, histogram: str, **labels: str) -> float | None:
        """Mean of what a histogram observed in between; None when nothing was."""
        count = self.rate(f"{histogram}_count", **labels)
        total = self.rate(f"{histogram}_sum", **labels)
        return total / count if count and total is not None else None

    def _grown(self, key: tuple[str, Labels]) -> float:
        now, then = self.after.values[key], self.before.values.get(key, 0.0)
        return now - then if now >= then else now
