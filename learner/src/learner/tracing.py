"""The learner's part of each attempt's trace: one span, from its group's arrival to its fate.

The trace is the one that the gateway began, found by the attempt's own id. Without an endpoint
nothing is recorded or sent.
"""

import time

from envfarm.traces import trace_ids
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from learner.group import TakenGroup


class Traces:
    """`processor` replaces the sender to `endpoint`/v1/traces; with neither, every call is a no-op."""

    def __init__(self, endpoint: str | None, processor: SpanProcessor | None = None):
        self._provider: TracerProvider | None = None
        self._arrived: dict[str, int] = {}
        if endpoint is not None:
            exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
            processor = BatchSpanProcessor(exporter, schedule_delay_millis=1000)
        if processor is not None:
            self._provider = TracerProvider(
                resource=Resource({SERVICE_NAME: "envfarm-learner"}), shutdown_on_exit=False
            )
            self._provider.add_span_processor(processor)

    def arrived(self, group: TakenGroup) -> None:
        """Its bytes were read."""
        if self._provider is not None:
            self._arrived[group.group_id] = time.time_ns()

    def ended(self, group: TakenGroup, fate: str, update: int) -> None:
        """What became of it, on the trace of each of its attempts."""
        if self._provider is None:
            return
        now = time.time_ns()
        since = self._arrived.pop(group.group_id, now)
        for attempt in group.attempts:
            ids = trace_ids(attempt.rollout_id)
            parent = trace.SpanContext(
                ids.trace, ids.root, is_remote=True, trace_flags=trace.TraceFlags(1)
            )
            span = self._provider.get_tracer("envfarm").start_span(
                "learn",
                trace.set_span_in_context(trace.NonRecordingSpan(parent)),
                attributes={
                    "envfarm.rollout_id": attempt.rollout_id,
                    "envfarm.fate": fate,
                    "envfarm.update": update,
                },
                start_time=since,
            )
            span.end(now)

    def close(self) -> None:
        """Send what is left."""
        if self._provider is not None:
            self._provider.shutdown()
