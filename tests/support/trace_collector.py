"""A stand-in collector of traces: OTLP over HTTP, as a real one is spoken to."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    service: str
    name: str
    trace: str
    """32 hexadecimal digits."""
    id: str
    parent: str
    attributes: dict[str, str]


@dataclass
class Collector:
    url: str
    spans: list[Span] = field(default_factory=list)

    def of(self, trace: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace]


@contextlib.contextmanager
def trace_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    found = []
    for resource in request.resource_spans:
        names = {item.key: item.value.string_value for item in resource.resource.attributes}
        for scope in resource.scope_spans:
            found += [
                Span(
                    service=names["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes={item.key: item.value.string_value for item in span.attributes},
                )
                for span in scope.spans
            ]
    return found
