"""The learner's instruments, from the registry alone, and one line per update in steps.jsonl."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError
from envfarm.metrics import METRICS
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    start_http_server,
)

from learner.group import TakenGroup

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


GAUGES = {
    "envfarm_reward_mean": "reward_mean",
    "envfarm_zero_variance_share": "zero_variance_share",
    "envfarm_advantage_spread": "advantage_spread",
    "envfarm_mismatch_gap": "mismatch_gap",
    "envfarm_mismatch_kl": "mismatch_kl",
    "envfarm_policy_entropy": "entropy",
    "envfarm_clip_share": "clip_share",
    "envfarm_grad_norm": "grad_norm",
    "envfarm_staleness_max": "staleness_max",
}
"""Gauge → key of steps.jsonl."""
FATES = ("trained", "duplicate", "stale", "abandoned_policy", "bad")
PHASES = ("wait", "gradients", "optimizer", "checkpoint", "publish")
QUANTILES = {"0.01": "ratio_p01", "0.5": "ratio_p50", "0.99": "ratio_p99"}


class LearnerMetrics:
    """`steps` is the file of one line an update; `also` gets each line, too."""

    def __init__(self, steps: Path, also: Callable[[dict[str, Any]], None] = lambda _: None):
        self._also = also
        self._seconds: dict[str, float] = {}
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._steps = steps
        self._made: dict[str, Any] = {}
        self._now = ""
        for metric in METRICS:
            if metric.owner != "learner":
                continue
            common = (metric.name, metric.meaning, metric.labels)
            if metric.kind == "counter":
                self._made[metric.name] = Counter(*common, registry=self.registry)
            elif metric.kind == "gauge":
                self._made[metric.name] = Gauge(*common, registry=self.registry)
            else:
                self._made[metric.name] = Histogram(
                    *common, registry=self.registry, buckets=BUCKETS
                )
        self._show("")
        for fate in FATES:
            # A series that begins at its first event hides that event from every rate.
            self.taken(fate, None, 0)

    def serve(self, host: str, port: int) -> None:
        """Serve /metrics; 0 serves none. ConfigError when the address cannot be had."""
        if port == 0:
            return
        try:
            start_http_server(port, host, registry=self.registry)
        except OSError as error:
            raise ConfigError(
                f"metrics: cannot listen on {host}:{port}: {error.strerror}",
                hint="choose another metrics.port, or 0 for none",
            ) from error

    def taken(self, fate: str, group: TakenGroup | None, count: int = 1) -> None:
        """A group's fate; `group` is None when its bytes were not read."""
        self._made["envfarm_groups_taken_total"].labels(fate=fate).inc(count)
        attempts = group.attempts if group else ()
        tokens = sum(int((attempt.loss_mask == 1).sum()) for attempt in attempts)
        self._made["envfarm_taken_episodes_total"].labels(fate=fate).inc(len(attempts))
        self._made["envfarm_taken_tokens_total"].labels(fate=fate).inc(tokens)

    @contextmanager
    def at(self, phase: str) -> Iterator[None]:
        """What the learner does inside; afterwards it does again what it did before."""
        before = self._now
        self._show(phase)
        try:
            yield
        finally:
            self._show(before)

    def _show(self, phase: str) -> None:
        self._now = phase
        for name in PHASES:
            self._made["envfarm_learner_phase"].labels(phase=name).set(name == phase)

    def phase(self, name: str, seconds: float) -> None:
        self._made["envfarm_step_seconds"].labels(phase=name).observe(seconds)
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def taken_seconds(self) -> dict[str, float]:
        """Seconds by phase since the last call."""
        seconds, self._seconds = self._seconds, {}
        return seconds

    def version(self, number: int) -> None:
        self._made["envfarm_learner_version"].set(number)

    def step(self, line: dict[str, Any]) -> None:
        """One update's numbers; keys as written to steps.jsonl."""
        self._made["envfarm_trained_tokens_total"].inc(line["tokens"] if line["stepped"] else 0)
        self._made["envfarm_trained_episodes_total"].inc(
            line["trained_rollouts"] if line["stepped"] else 0
        )
        untrained = self._made["envfarm_untrained_tokens_total"]
        untrained.labels(reason="prompt").inc(line["prompt_tokens"])
        untrained.labels(reason="masked").inc(line["masked_tokens"])
        untrained.labels(reason="no_signal").inc(0 if line["stepped"] else line["tokens"])
        for name, key in GAUGES.items():
            # An update without tokens of its own policy's version tells nothing of a mismatch.
            if key != "mismatch_gap" or line[key]:
                self._made[name].set(line[key])
        for quantile, key in QUANTILES.items():
            self._made["envfarm_ratio"].labels(quantile=quantile).set(line[key])
        with self._steps.open("a") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")
        self._also(line)
