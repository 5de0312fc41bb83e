"""A policy server that answers from a script: `python -m envfarm_cli.scripted_policy`.

It speaks the routes of vLLM that the gateway uses and samples nothing. With `--engine` a real vLLM
behind it scores every scripted token, and every other request goes to that vLLM, so that the
attempts are numerically on-policy and weights can be exchanged. Without, log-probabilities are
one constant and control requests are answered here.
"""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from envfarm.errors import ConfigError
from envfarm_common import lifecycle
from envfarm_common.http import HttpServer
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from envfarm_cli.failure import BadInput
from envfarm_cli.script import Script
from envfarm_cli.service_specs import MAX_MODEL_LEN, MODEL_NAME
from envfarm_cli.stand_in_metrics import StandInMetrics

CONSTANT_LOGPROB = -1.0
ENGINE_SECONDS = 300


class ConstantEngine:
    """Stands for a vLLM: one log-probability for every token, controls that only keep state."""

    def __init__(self) -> None:
        self.version = "default"
        self._metrics = StandInMetrics()
        self._running = asyncio.Event()
        self._running.set()

    async def score(self, prompt: list[int], response: list[int]) -> tuple[list[float], str]:
        with self._metrics.request(len(prompt), len(response)):
            await self._running.wait()
        return [CONSTANT_LOGPROB] * len(response), self.version

    async def forward(self, request: Request) -> Response:
        path, body = request.url.path, await _json(request)
        if path == "/pause":
            self._running.clear()
            return JSONResponse({"status": "paused"})
        if path == "/resume":
            self._running.set()
            return JSONResponse({"status": "resumed"})
        if path == "/is_paused":
            return JSONResponse({"is_paused": not self._running.is_set()})
        if path == "/collective_rpc":
            weights = Path(body.get("kwargs", {}).get("weights_path", "/nowhere"))
            if not weights.is_dir():
                return JSONResponse({"error": f"no weights at {weights}"}, status_code=500)
            return JSONResponse({"results": [None]})
        if path == "/reset_prefix_cache":
            return JSONResponse({"success": True})
        if path == "/update_weight_version":
            self.version = str(body["new_version"])
            return JSONResponse({"success": True, "new_version": self.version})
        if path == "/weight_info":
            return JSONResponse({"weight_version": self.version})
        if path == "/v1/models":
            return JSONResponse({"data": [{"id": MODEL_NAME, "max_model_len": MAX_MODEL_LEN}]})
        if path == "/metrics":
            return Response(self._metrics.page(), media_type="text/plain; version=0.0.4")
        if path == "/inference/v1/generate":
            return JSONResponse(self._probe(body))
        if path in ("/health", "/abort_requests", "/inference/v1/abort_requests"):
            return Response()
        return JSONResponse({"error": f"no route {path}"}, status_code=404)

    async def close(self) -> None:
        """Nothing is open."""

    def _probe(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = body["token_ids"]
        scores: list[dict[str, Any] | None] = [
            {str(token): {"logprob": CONSTANT_LOGPROB, "rank": 1}} for token in ids
        ]
        scores[0] = None
        answer = generate_answer(
            body.get("request_id", ""), [ids[-1]], [CONSTANT_LOGPROB], "length", self.version
        )
        return {**answer, "prompt_logprobs": scores}


class RealEngine:
    """The vLLM behind us."""

    def __init__(self, url: str):
        limits = httpx.Limits(max_connections=256)
        self._client = httpx.AsyncClient(base_url=url, timeout=ENGINE_SECONDS, limits=limits)

    async def score(self, prompt: list[int], response: list[int]) -> tuple[list[float], str]:
        """log p of each response token, and the label of the weights that gave them."""
        answer = await self._client.post(
            "/inference/v1/generate",
            json={
                "token_ids": [*prompt, *response],
                "sampling_params": {
                    "max_tokens": 1,
                    "temperature": 0.0,
                    "prompt_logprobs": 0,
                    "detokenize": False,
                },
            },
        )
        if answer.status_code != 200:
            raise EngineRefused(answer)
        body = answer.json()
        scores = body["prompt_logprobs"][len(prompt) :]
        spans = body["choices"][0].get("weight_versions") or [{"version": "default"}]
        logprobs = [
            score[str(token)]["logprob"] for token, score in zip(response, scores, strict=True)
        ]
        return logprobs, spans[0]["version"]

    async def forward(self, request: Request) -> Response:
        answer = await self._client.request(
            request.method,
            request.url.path,
            params=dict(request.query_params),
            content=await request.body(),
            headers={"content-type": request.headers.get("content-type", "application/json")},
        )
        return Response(
            answer.content, answer.status_code, media_type=answer.headers.get("content-type")
        )

    async def close(self) -> None:
        await self._client.aclose()


class EngineRefused(Exception):
    """The engine answered with a failure, which is handed on as it is."""

    def __init__(self, answer: httpx.Response):
        super().__init__(answer.text)
        self.answer = answer


def generate_answer(
    request_id: str, ids: list[int], logprobs: list[float], reason: str, version: str
) -> dict[str, Any]:
    """The body of /inference/v1/generate."""
    content = [
        {"token_id": token, "logprob": logprob, "rank": None, "top_logprobs": []}
        for token, logprob in zip(ids, logprobs, strict=True)
    ]
    choice = {
        "index": 0,
        "finish_reason": reason,
        "stop_reason": None,
        "token_ids": ids,
        "logprobs": {"content": content},
        "weight_versions": [{"version": version, "start": 0, "end": len(ids)}],
    }
    return {"request_id": request_id, "choices": [choice], "prompt_logprobs": None}


def create_app(script: Script, engine: ConstantEngine | RealEngine) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.close()

    app = FastAPI(title="envfarm scripted policy", lifespan=lifespan)

    @app.post("/inference/v1/generate")
    async def generate(request: Request) -> Response:
        body = await request.json()
        prompt, request_id = body["token_ids"], body.get("request_id", "")
        ids = script.answer(request_id, prompt)
        if ids is None:
            return await engine.forward(request)
        limit = body["sampling_params"]["max_tokens"]
        reason = "stop" if len(ids) <= limit else "length"
        logprobs, version = await engine.score(prompt, ids[:limit])
        return JSONResponse(generate_answer(request_id, ids[:limit], logprobs, reason, version))

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def anything_else(request: Request, path: str) -> Response:
        return await engine.forward(request)

    @app.exception_handler(BadInput)
    async def on_bad_input(request: Request, error: BadInput) -> Response:
        return JSONResponse({"error": {"message": error.message}}, status_code=400)

    @app.exception_handler(EngineRefused)
    async def on_refused(request: Request, error: EngineRefused) -> Response:
        return Response(
            error.answer.content, error.answer.status_code, media_type="application/json"
        )

    @app.exception_handler(httpx.HTTPError)
    async def on_dead_engine(request: Request, error: httpx.HTTPError) -> Response:
        text = f"the engine does not answer: {error or type(error).__name__}"
        return JSONResponse({"error": {"message": text}}, status_code=502)

    return app


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = lifecycle.stop_event()
    try:
        script = Script.load(options.script, options.tokenizer)
    except BadInput as error:
        raise ConfigError(error.message, hint=error.hint) from error
    engine = RealEngine(options.engine) if options.engine else ConstantEngine()
    server = HttpServer(create_app(script, engine), options.host, options.port)
    await server.start()
    lifecycle.write_ready(options.ready_file, http=f"http://{options.host}:{server.port}")
    try:
        await stop.wait()
    finally:
        await server.stop()
        lifecycle.remove_ready(options.ready_file)


async def _json(request: Request) -> dict[str, Any]:
    body = await request.body()
    return await request.json() if body else {}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m envfarm_cli.scripted_policy",
        description="A policy that answers from a script; the slots of a group take its plans in turn.",
    )
    parser.add_argument("--script", type=Path, required=True, help="JSON file of plans")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--engine", default="", help="URL of a vLLM that scores the tokens")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="gets the address once it serves")
    options = parser.parse_args(arguments)
    return lifecycle.run(lambda: serve(options))


if __name__ == "__main__":
    sys.exit(main())
