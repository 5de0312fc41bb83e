"""What records spans and sends them off; imported only where an endpoint is configured."""

from collections.abc import Callable, Sequence

from envfarm.traces import TraceIds
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes

Root = Callable[[], TraceIds | None]


def make_provider(service: str, endpoint: str, root: Root) -> TracerProvider:
    """Spans of `service` go to `endpoint`/v1/traces in batches; `root` tells the ids of a first
    span while it is made."""
    provider = TracerProvider(
        sampler=_OfAttempts(root),
        resource=Resource({SERVICE_NAME: f"envfarm-{service}"}),
        id_generator=_Ids(root),
    )
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    return provider


class _Ids(RandomIdGenerator):
    def __init__(self, root: Root):
        self._root = root

    def generate_trace_id(self) -> int:
        given = self._root()
        return given.trace if given else super().generate_trace_id()

    def generate_span_id(self) -> int:
        given = self._root()
        return given.root if given else super().generate_span_id()


class _OfAttempts(Sampler):
    """Scrapes, probes and leases would bury the attempts: a span without one is not recorded."""

    def __init__(self, root: Root):
        self._root = root

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        parent = trace.get_current_span(parent_context).get_span_context()
        is_ours = parent.trace_flags.sampled if parent.is_valid else self._root() is not None
        return SamplingResult(
            Decision.RECORD_AND_SAMPLE if is_ours else Decision.DROP, attributes, trace_state
        )

    def get_description(self) -> str:
        return "attempts and what belongs to them"
