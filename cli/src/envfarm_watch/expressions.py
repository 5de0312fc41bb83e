"""The few forms in which a metric is asked for; metric names without their prefix `envfarm_`."""

from collections.abc import Sequence


def rate(metric: str, *by: str, where: str = "") -> str:
    """Events a second over all processes, by the given labels."""
    return f"sum{_by(by)}(rate({_name(metric, where)}[$window]))"


def total(metric: str, *by: str, where: str = "") -> str:
    """A gauge summed over all processes, by the given labels."""
    return f"sum{_by(by)}({_name(metric, where)})"


def highest(metric: str, *by: str, where: str = "") -> str:
    return f"max{_by(by)}({_name(metric, where)})"


def quantile(share: float, metric: str, *by: str, where: str = "") -> str:
    """A quantile of a histogram over all processes."""
    buckets = rate(f"{metric}_bucket", *by, "le", where=where)
    return f"histogram_quantile({share:g}, {buckets})"


def mean(metric: str, *by: str, where: str = "") -> str:
    """Mean of a histogram's observations."""
    return (
        f"{rate(f'{metric}_sum', *by, where=where)} / {rate(f'{metric}_count', *by, where=where)}"
    )


def part_of(part: str, whole: str) -> str:
    """One expression over another, where both have the same labels."""
    return f"{part} / {whole}"


def share_of_time(phase: str) -> str:
    """Share of the learner's seconds spent in one phase, also in one that has not ended yet."""
    return f'avg(avg_over_time(envfarm_learner_phase{{phase="{phase}"}}[$window]))'


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)}) " if labels else ""


def _name(metric: str, where: str) -> str:
    return f"envfarm_{metric}{{{where}}}" if where else f"envfarm_{metric}"
