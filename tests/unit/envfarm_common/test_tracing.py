"""Traces: nothing without an endpoint; with one, attempts and what belongs to them, and no more."""

import json
import subprocess
import sys

from envfarm.traces import trace_id_text, trace_ids
from envfarm_common import tracing

PROGRAM = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from envfarm_common import logging, tracing

logging.configure("test", "info")
tracing.configure("test", "http://127.0.0.1:1")
seen = InMemorySpanExporter()
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(seen))

async def app(scope, receive, send):
    with tracing.span("inside"):
        pass

async def request(headers):
    raw = [(key.encode(), value.encode()) for key, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/grade", "headers": raw}
    await tracing.Traced(app)(scope, None, None)

with tracing.span("a probe"):
    assert tracing.ids() == {}
asyncio.run(request({}))
with tracing.attempt("job.0.0.s0.a1"):
    with tracing.span("generate", tool=""):
        headers = tracing.carried()
        ids = tracing.ids()
        with logging.bind(episode_id="e1"):
            logging.get("test").info("inside")
logging.get("test").info("outside")
asyncio.run(request(headers))
print(json.dumps({
    "ids": ids,
    "spans": {
        span.name: [
            f"{span.context.trace_id:032x}",
            f"{span.context.span_id:016x}",
            f"{span.parent.span_id:016x}" if span.parent else "",
        ]
        for span in seen.get_finished_spans()
    },
}))
sys.stdout.flush()
import os
os._exit(0)
"""


def test_the_ids_of_a_trace_are_the_hash_of_its_attempt():
    # sha256("job.0.0.s0.a1")
    assert trace_id_text("job.0.0.s0.a1") == f"{trace_ids('job.0.0.s0.a1').trace:032x}"
    assert len(trace_id_text("x")) == 32
    assert trace_id_text("x") == "2d711642b726b04401627ca9fbac32f5"
    assert trace_ids("x").root == 0xC8530FB1903CC4DB


def test_without_an_endpoint_nothing_is_recorded_or_carried():
    with tracing.attempt("job.0.0.s0.a1"), tracing.span("generate"):
        assert tracing.carried() == {}
        assert tracing.ids() == {}
        metadata = [("authorization", "Bearer x")]
        assert tracing.with_trace(metadata) is metadata


def test_only_attempts_are_recorded_under_ids_of_their_own_and_across_http():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    spans, ids = told["spans"], trace_ids("job.0.0.s0.a1")
    assert set(spans) == {"attempt", "generate", "POST /v1/grade", "inside"}
    assert {trace for trace, _, _ in spans.values()} == {f"{ids.trace:032x}"}
    assert spans["attempt"][1:] == [f"{ids.root:016x}", ""]
    assert spans["generate"][2] == spans["attempt"][1]
    assert spans["POST /v1/grade"][2] == spans["generate"][1]
    assert spans["inside"][2] == spans["POST /v1/grade"][1]
    assert told["ids"] == {"trace_id": f"{ids.trace:032x}", "span_id": spans["generate"][1]}
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    logged = {line["message"]: line for line in lines}
    assert logged["inside"].items() >= {**told["ids"], "episode_id": "e1"}.items()
    assert not logged["outside"].keys() & {"trace_id", "span_id", "episode_id"}
