"""The learner adds to the traces that the gateway began."""

from envfarm.traces import trace_ids
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from learner.tracing import Traces
from tests.support.taken_group import group


def test_each_attempt_of_a_group_gets_a_span_under_its_first_one():
    seen = InMemorySpanExporter()
    traces = Traces(None, SimpleSpanProcessor(seen))
    traces.arrived(group([0, 1], [0, 1]))
    traces.ended(group([0, 1], [0, 1]), "trained", 3)
    spans = seen.get_finished_spans()
    assert [span.name for span in spans] == ["learn", "learn"]
    for span, rollout_id in zip(spans, ("g.s0.a1", "g.s1.a1"), strict=True):
        assert span.context is not None and span.parent is not None
        assert (span.context.trace_id, span.parent.span_id) == trace_ids(rollout_id)
        assert dict(span.attributes or {}) == {
            "envfarm.rollout_id": rollout_id,
            "envfarm.fate": "trained",
            "envfarm.update": 3,
        }
        assert span.start_time and span.end_time and span.start_time <= span.end_time


def test_without_an_endpoint_nothing_happens():
    traces = Traces(None)
    traces.arrived(group([0, 1]))
    traces.ended(group([0, 1]), "stale", 1)
    traces.close()
