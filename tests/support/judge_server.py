"""A stand-in judge: a real HTTP server with the chat-completions route, whose words a test decides.

    with judge_server(lambda messages: '{"answer": "yes"}') as judge: judge.url

An int instead of a text is an HTTP status; None is an answer that was cut.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = 12
"""What each answer says that it took."""
Script = Callable[[list[dict[str, str]]], str | int | None]


@dataclass
class JudgeServer:
    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests, in order."""


@contextlib.contextmanager
def judge_server(script: Script) -> Iterator[JudgeServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            judge.asked.append(body)
            said = script(body["messages"])
            status = said if isinstance(said, int) else 200
            finish = "length" if said is None else "stop"
            message = {"role": "assistant", "content": said or ""}
            choice = {"index": 0, "finish_reason": finish, "message": message}
            value = {"model": body["model"], "choices": [choice], "usage": {"total_tokens": TOKENS}}
            answer = json.dumps(value).encode()
            self.send_response(status if self.path == "/v1/chat/completions" else 404)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    judge = JudgeServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield judge
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def quoted_text(messages: list[dict[str, str]]) -> str:
    """The text that the judge was asked about, out of the prompt."""
    line = next(line for line in messages[-1]["content"].split("\n") if line.startswith("Text: "))
    return json.loads(line.removeprefix("Text: "))
