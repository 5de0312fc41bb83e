"""FastAPI set-up: health, metrics, problem documents (RFC 9457), and a uvicorn server in the loop."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from envfarm.errors import WIRE, Code, EnvfarmError, InternalError, InvalidArgument
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp

from envfarm_common import logging, tracing
from envfarm_common.grpc import address_taken
from envfarm_common.metrics import Instruments

log = logging.get(__name__)


def create_app(title: str, instruments: Instruments, is_ready: Callable[[], bool]) -> FastAPI:
    """An app with /healthz (the process lives), /readyz (it takes work) and /metrics."""
    app = FastAPI(title=title, version="1", docs_url="/docs", redoc_url=None)
    app.add_middleware(tracing.Traced)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        ready = is_ready()
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        # Not async: beside the loop, as thousands of lines take tens of milliseconds.
        return Response(instruments.render(), media_type="text/plain; version=0.0.4")

    app.add_exception_handler(EnvfarmError, _on_ours)  # pyright: ignore[reportArgumentType]
    app.add_exception_handler(RequestValidationError, _on_invalid)  # pyright: ignore[reportArgumentType]
    app.add_exception_handler(Exception, _on_unexpected)
    return app


def problem(error: EnvfarmError) -> JSONResponse:
    """The problem document of `error`: type, title, status, detail, and our code, hint, retryable."""
    wire = WIRE[type(error)]
    name = Code.Name(wire.code)  # pyright: ignore[reportArgumentType]
    body = {
        "type": f"urn:envfarm:error:{name.removeprefix('ERROR_CODE_').lower()}",
        "title": type(error).__name__,
        "status": wire.http,
        "detail": error.message,
        "code": name,
        "hint": error.hint,
        "retryable": wire.retryable,
    }
    headers = {}
    if error.retry_after_seconds:
        headers["Retry-After"] = str(max(1, round(error.retry_after_seconds)))
    return JSONResponse(
        body, status_code=wire.http, headers=headers, media_type="application/problem+json"
    )


async def _on_ours(request: Request, error: EnvfarmError) -> JSONResponse:
    return problem(error)


async def _on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    parts = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
    return problem(InvalidArgument("; ".join(parts)))


async def _on_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected error", path=request.url.path, exc_info=error)
    return problem(InternalError(f"{request.url.path}: {type(error).__name__}"))


class HttpServer:
    """uvicorn inside the caller's event loop; signals stay with the caller. With `shared`, other
    processes may listen on the same port, and the kernel deals connections out."""

    def __init__(self, app: ASGIApp, host: str, port: int, *, shared: bool = False):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise address_taken(f"{host}:{port}") from error
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app, log_config=None, lifespan="on", timeout_graceful_shutdown=5, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # `_serve` is `serve` without uvicorn's own signal handlers, which would replace ours.
        self._task = asyncio.create_task(self._server._serve([self._socket]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise InternalError("the HTTP server ended while starting")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self._server.should_exit = True
        if self._task:
            await self._task
