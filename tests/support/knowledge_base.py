"""A search service that knows collections and finds nothing: enough for servers of others whose init
puts documents into a Typesense and whose checks never search it."""

import contextlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

FOUND_NOTHING = {"found": 0, "hits": []}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    known: set[str]

    def do_GET(self) -> None:
        parts = self._parts()
        if parts[2:] == ["documents", "search"]:
            self._answer(200, FOUND_NOTHING)
        elif len(parts) == 2 and parts[1] in self.known:
            self._answer(200, {"name": parts[1], "num_documents": 0})
        else:
            self._answer(404, {"message": "Not found"})

    def do_POST(self) -> None:
        body = self._body()
        if self._parts() == ["multi_search"]:
            self._answer(200, {"results": [FOUND_NOTHING for _ in body.get("searches", [])]})
            return
        if self._parts() == ["collections"]:
            self.known.add(body["name"])
        self._answer(201, body)

    def do_DELETE(self) -> None:
        name = self._parts()[-1]
        self.known.discard(name)
        self._answer(200, {"name": name})

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is told of single requests."""

    def _parts(self) -> list[str]:
        return self.path.partition("?")[0].strip("/").split("/")

    def _body(self) -> dict[str, Any]:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextlib.contextmanager
def knowledge_base(port: int) -> Iterator[None]:
    """Serve on 127.0.0.1; OSError when the port is taken."""
    handler = type("Handler", (_Handler,), {"known": set()})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
