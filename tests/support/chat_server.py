"""A stand-in chat endpoint with tools: a real HTTP server whose answers a test decides.

    with chat_server(lambda body: spoken("Good day.")) as server: server.url

The script gets the body of each request and gives a whole answer, or an HTTP status.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any]], dict[str, Any] | int]


@dataclass
class ChatServer:
    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests, in order."""
    keys: set[str] = field(default_factory=set)
    """Authorization headers seen."""


def spoken(
    text: str, *calls: tuple[str, Any], ended: str = "stop", usage: tuple[int, int] = (100, 10)
) -> dict[str, Any]:
    """An answer; arguments that are no text are written as JSON."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"c{i}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for i, (name, given) in enumerate(calls)
        ]
    return {
        "choices": [{"index": 0, "finish_reason": ended, "message": message}],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]},
    }


def turns_so_far(body: dict[str, Any]) -> int:
    return sum(message["role"] == "assistant" for message in body["messages"])


@contextlib.contextmanager
def chat_server(script: Script) -> Iterator[ChatServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.asked.append(body)
            found.keys.add(self.headers.get("Authorization", ""))
            said = script(body)
            status = said if isinstance(said, int) else 200
            if self.path != "/v1/chat/completions":
                status = 404
            value = {"error": {"message": "planned"}} if isinstance(said, int) else said
            answer = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = ChatServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
