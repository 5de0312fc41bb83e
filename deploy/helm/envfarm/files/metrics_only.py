"""Passes GET /metrics on to one target and refuses everything else.

An engine's control routes listen on the same port as its metrics and ask for no key; whoever scrapes
reaches this instead. Standard library only, as it runs in any image that has Python.
"""

import argparse
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECONDS = 10


def handler(target: str) -> type[BaseHTTPRequestHandler]:
    class MetricsOnly(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            try:
                with urllib.request.urlopen(target, timeout=SECONDS) as answer:
                    body = answer.read()
                    kind = answer.headers.get("Content-Type", "text/plain")
            except (urllib.error.URLError, OSError):
                self.send_error(502, "the engine does not answer")
                return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A scrape every few seconds is no news."""

    return MetricsOnly


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="URL of the metrics")
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    ThreadingHTTPServer(("0.0.0.0", options.port), handler(options.target)).serve_forever()


if __name__ == "__main__":
    main()
