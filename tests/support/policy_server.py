"""A stand-in engine for tests: a real HTTP server with vLLM's routes that plays scripted turns.

    with PolicyServer(tokenizer_dir, lambda rollout_id, turn, prompt: "Hello.") as engine: engine.url

The script gets the rollout id, the turn's index and the decoded prompt; it answers with the model's
text, in which <tool_call> and its like become the tokenizer's own tokens. With `upstream`, the URL of
a real vLLM, the turns are still scripted and the log-probabilities are the real model's.

Weights are a folder with a file `offset`: a number that is taken from each log-probability. Faults
are planned by request id: `engine.faults["j.0.0.s1.a1.t0"] = "http_500"`.
"""

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from rollout_gateway.chat.vocabulary import Vocabulary

Script = Callable[[str, int, str], str]
MARKS = re.compile(r"(</?(?:think|tool_call|tool_response)>)")
CUT = "<cut>"
"""A scripted turn that ends with this is cut at its length instead of ending by itself."""


def logprob(token_id: int, offset: float = 0.0) -> float:
    """What the stand-in says of a token, whatever came before it."""
    return -0.125 * (1 + token_id % 8) - offset


def write_weights(folder: Path, offset: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "offset").write_text(str(offset))
    return folder


class PolicyServer:
    def __init__(
        self,
        tokenizer_dir: Path,
        script: Script,
        *,
        upstream: str | None = None,
        max_model_len: int = 32768,
    ):
        self.words = Vocabulary(tokenizer_dir)
        self.script = script
        self.faults: dict[str, str] = {}
        """request id → http_500, hang, disconnect, not_json, aborted, too_many, short_logprobs,
        other_ids, nan, no_versions; each happens once."""
        self.requests: list[dict[str, Any]] = []
        """Bodies of all generations, in order of arrival."""
        self.aborted: list[str] = []
        self.healthy = True
        self.label = "default"
        self.offset = 0.0
        self.paused = False
        self.failing_resets = 0
        """This many times /reset_prefix_cache answers success false."""
        self.reload_fails = False
        self.cached_offset: float | None = None
        """Set by tests: a reload keeps the old weights, as with tied embeddings."""
        self.delay = 0.0
        self._upstream = upstream
        self._max_model_len = max_model_len
        self._server = uvicorn.Server(
            uvicorn.Config(
                _app(self),
                port=0,
                log_level="critical",
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = ""

    def __enter__(self) -> "PolicyServer":
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise AssertionError("the stand-in engine did not start")
            time.sleep(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)

    def encode(self, text: str) -> list[int]:
        return [
            number
            for part in MARKS.split(text)
            for number in (
                self.words.mark(part) if MARKS.fullmatch(part) else self.words.plain(part)
            )
        ]

    async def generate(self, request: Request) -> Response:
        body = await request.json()
        request_id, fault = body["request_id"], self.faults.pop(body["request_id"], "")
        if request_id != "probe":
            self.requests.append(body)
        while self.paused:
            await asyncio.sleep(0.01)
        await asyncio.sleep(self.delay)
        if fault == "http_500":
            return JSONResponse({"error": {"message": "planned"}}, status_code=500)
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "disconnect":
            return StreamingResponse(_broken_off(), headers={"content-length": "100"})
        if fault == "not_json":
            return Response("<html>", media_type="text/html")
        answer = await self._answer(body)
        _spoil(answer["choices"][0], fault)
        return Response(json.dumps(answer), media_type="application/json")

    async def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        parameters, prompt = body["sampling_params"], body["token_ids"]
        ids, reason = self._turn(body["request_id"], prompt, parameters["max_tokens"])
        label, logprobs = self.label, [logprob(number, self.offset) for number in ids]
        if self._upstream:
            label, logprobs = await self._real(body, ids)
        answer: dict[str, Any] = {
            "request_id": f"generate-tokens-{body['request_id']}",
            "prompt_logprobs": None,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": reason,
                    "token_ids": ids,
                    "logprobs": {
                        "content": [
                            {"token_id": number, "logprob": value}
                            for number, value in zip(ids, logprobs, strict=True)
                        ]
                    },
                    "weight_versions": [{"version": label, "start": 0, "end": len(ids)}],
                }
            ],
        }
        if parameters.get("prompt_logprobs") is not None:
            answer["prompt_logprobs"] = [None] + [
                {str(number): {"logprob": logprob(number, self.offset)}} for number in prompt[1:]
            ]
        return answer

    def _turn(self, request_id: str, prompt: list[int], room: int) -> tuple[list[int], str]:
        if request_id == "probe":
            return [0], "length"
        rollout_id, _, turn = request_id.rpartition(".t")
        text = self.script(rollout_id, int(turn), self.words.decode(prompt))
        ids = self.encode(text.removesuffix(CUT))
        if text.endswith(CUT):
            return ids[:room], "length"
        ids = [*ids, self.words.turn_end]
        return (ids, "stop") if len(ids) <= room else (ids[:room], "length")

    async def _real(self, body: dict[str, Any], ids: list[int]) -> tuple[str, list[float]]:
        """Label and raw logprobs of `ids` after the prompt, from the real engine."""
        prompt = body["token_ids"]
        parameters = {**body["sampling_params"], "max_tokens": 1, "prompt_logprobs": 0}
        parameters["stop_token_ids"] = []
        # One request scores the whole turn, as the end of a prompt.
        real = {**body, "token_ids": prompt + ids, "sampling_params": parameters}
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            answer = (
                await client.post(f"{self._upstream}/inference/v1/generate", json=real)
            ).json()
        rows = answer["prompt_logprobs"][len(prompt) :]
        values = [row[str(number)]["logprob"] for row, number in zip(rows, ids, strict=True)]
        return answer["choices"][0]["weight_versions"][0]["version"], values

    async def passed_on(self, request: Request) -> Response:
        """Everything but scripted generations goes to the real engine."""
        async with httpx.AsyncClient(trust_env=False, timeout=300) as client:
            answer = await client.request(
                request.method,
                f"{self._upstream}{request.url.path}?{request.url.query}",
                content=await request.body(),
                headers={"content-type": "application/json"},
            )
        return Response(answer.content, answer.status_code, media_type="application/json")

    def reload(self, path: str) -> None:
        offset = float((Path(path) / "offset").read_text())
        self.offset = offset if self.cached_offset is None else self.cached_offset


def _app(server: PolicyServer) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def upstream(request: Request, call_next: Any) -> Response:
        if server._upstream and request.url.path != "/inference/v1/generate":
            return await server.passed_on(request)
        if server._upstream and (await request.json())["request_id"] == "probe":
            return await server.passed_on(request)
        return await call_next(request)

    @app.post("/inference/v1/generate")
    async def generate(request: Request) -> Response:
        return await server.generate(request)

    @app.post("/inference/v1/abort_requests")
    async def abort(body: dict[str, Any]) -> Response:
        server.aborted += body["request_ids"]
        return Response()

    @app.get("/health")
    async def health() -> Response:
        return Response(status_code=200 if server.healthy else 503)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"data": [{"id": "policy", "max_model_len": server._max_model_len}]}

    @app.get("/weight_info")
    async def weight_info() -> dict[str, str]:
        return {"weight_version": server.label}

    @app.post("/pause")
    async def pause() -> dict[str, str]:
        server.paused = True
        return {"status": "paused"}

    @app.post("/resume")
    async def resume() -> dict[str, str]:
        server.paused = False
        return {"status": "resumed"}

    @app.post("/collective_rpc")
    async def collective_rpc(body: dict[str, Any]) -> Response:
        if server.reload_fails:
            return JSONResponse({"error": {"message": "planned"}}, status_code=500)
        server.reload(body["kwargs"]["weights_path"])
        return JSONResponse({"results": [None]})

    @app.post("/reset_prefix_cache")
    async def reset_prefix_cache() -> dict[str, bool]:
        server.failing_resets -= 1
        return {"success": server.failing_resets < 0}

    @app.post("/update_weight_version")
    async def update_weight_version(body: dict[str, str]) -> dict[str, bool]:
        server.label = body["new_version"]
        return {"success": True}

    return app


def _spoil(choice: dict[str, Any], fault: str) -> None:
    content = choice["logprobs"]["content"]
    if fault == "aborted":
        choice["finish_reason"] = "abort"
    elif fault == "too_many":
        choice["token_ids"] = choice["token_ids"] * 5000
    elif fault == "short_logprobs":
        content.pop()
    elif fault == "other_ids":
        content[0]["token_id"] += 1
    elif fault == "nan":
        content[0]["logprob"] = float("nan")
    elif fault == "no_versions":
        choice["weight_versions"] = None


async def _broken_off() -> Any:
    yield b"{"
    with contextlib.suppress(Exception):
        await asyncio.sleep(0)
    raise ConnectionResetError("planned")
