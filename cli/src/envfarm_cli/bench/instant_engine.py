"""An engine that answers at once: vLLM's routes, turns that were encoded beforehand.

    python -m envfarm_cli.bench.instant_engine --turns turns.json --ready-file FILE

Plain HTTP/1.1 on one asyncio protocol, so that what is measured is the gateway and not the stand-in.
The request id says which turn is asked for (`….t3`); every log-probability is -1. `GET /times` gives
[arrived, answered] by request id.
"""

import argparse
import asyncio
import json
import re
import time
from pathlib import Path

from envfarm_common import lifecycle

TURN = re.compile(rb'"request_id": ?"([^"]*\.t(\d+))"')
TOKENS = re.compile(rb'"token_ids": ?\[([0-9, ]*)\]')
VERSION = re.compile(rb'"new_version": ?"([^"]*)"')
MODELS = b'{"data": [{"id": "policy", "max_model_len": 32768}]}'
GENERATE = b"/inference/v1/generate"


class Turns:
    """Bodies of answers, made anew whenever the weights get another name."""

    def __init__(self, turns: list[list[int]]):
        self._turns = turns
        self.times: dict[str, tuple[float, float]] = {}
        self.rename("default")

    def rename(self, label: str) -> None:
        self.label = label
        self.bodies = [json.dumps(_answer(ids, label)).encode() for ids in self._turns]

    def body(self, request: bytes) -> bytes:
        turn = TURN.search(request)
        if turn is not None:
            return self.bodies[min(int(turn[2]), len(self.bodies) - 1)]
        found = TOKENS.search(request)
        ids = [int(part) for part in found[1].split(b",")] if found else []
        rows = [None, *({str(number): {"logprob": -1.0}} for number in ids[1:])]
        return json.dumps({**_answer([0], self.label), "prompt_logprobs": rows}).encode()


def _answer(ids: list[int], label: str) -> dict[str, object]:
    return {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "token_ids": ids,
                "logprobs": {"content": [{"token_id": n, "logprob": -1.0} for n in ids]},
                "weight_versions": [{"version": label, "start": 0, "end": len(ids)}],
            }
        ]
    }


class Door(asyncio.Protocol):
    def __init__(self, turns: Turns):
        self._turns = turns
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = re.search(rb"(?i)\ncontent-length: *(\d+)", head)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                return
            body, self._buffer = self._buffer[end + 4 : size], self._buffer[size:]
            self._reply(head.split(b" ", 2)[1].partition(b"?")[0], body)

    def _reply(self, path: bytes, body: bytes) -> None:
        assert self._transport is not None
        arrived = time.perf_counter()
        if path == GENERATE:
            answer = self._turns.body(body)
        elif path == b"/times":
            answer = json.dumps(self._turns.times).encode()
        elif path == b"/v1/models":
            answer = MODELS
        elif path == b"/update_weight_version":
            found = VERSION.search(body)
            self._turns.rename(found[1].decode() if found else "default")
            answer = b"{}"
        elif path == b"/weight_info":
            answer = json.dumps({"weight_version": self._turns.label}).encode()
        else:
            answer = b'{"success": true}'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(answer) + answer)
        if path == GENERATE and (turn := TURN.search(body)):
            self._turns.times[turn[1].decode()] = (arrived, time.perf_counter())


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    chosen = parser.parse_args()
    turns, stop = Turns(json.loads(chosen.turns.read_text())), lifecycle.stop_event()
    server = await asyncio.get_running_loop().create_server(lambda: Door(turns), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lifecycle.write_ready(chosen.ready_file, http=f"http://127.0.0.1:{port}")
    await stop.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
