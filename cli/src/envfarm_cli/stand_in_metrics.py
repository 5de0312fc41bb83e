"""The metrics page of a stand-in engine: vLLM's names, so that the boards show it like one."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

ROOM = 256
"""Requests that would fill the cache that it makes believe to have."""


class StandInMetrics:
    """Requests that run now, and tokens that were read and answered. Nothing ever queues in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._running = Gauge(
            "vllm:num_requests_running", "Requests inside.", registry=self.registry
        )
        self._cache = Gauge(
            "vllm:kv_cache_usage_perc", f"As if {ROOM} requests filled it.", registry=self.registry
        )
        Gauge("vllm:num_requests_waiting", "Always 0.", registry=self.registry)
        self._read = Counter("vllm:prompt_tokens", "Tokens read.", registry=self.registry)
        self._written = Counter("vllm:generation_tokens", "Tokens given.", registry=self.registry)

    @contextmanager
    def request(self, read: int, written: int) -> Iterator[None]:
        with self._running.track_inprogress():
            self._cache.inc(1 / ROOM)
            try:
                yield
            finally:
                self._cache.dec(1 / ROOM)
        self._read.inc(read)
        self._written.inc(written)

    def page(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)
