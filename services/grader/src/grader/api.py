"""The HTTP door: routes, tokens and bodies. What answers is in `door.py`; the reward is decided in
`verdict.py`."""

import asyncio
import json
from typing import Annotated, Any

from envfarm.canonical import canonical_json
from envfarm.errors import EnvfarmError, TooLarge
from envfarm_common.http import problem
from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from grader.ask import RegradeRequest, read, read_batch, read_grade
from grader.door import GradeDoor
from grader.openapi import describe
from grader.tokens import Caller, Tokens

BATCH_AT_ONCE = 8
"""Gradings of one batch at once, so that a batch leaves room for others."""

Authorization = Annotated[str | None, Header(include_in_schema=False)]


def add_routes(app: FastAPI, door: GradeDoor, tokens: Tokens, max_body_bytes: int) -> None:
    """Serve API v1 on `app`."""

    @app.post("/v1/grade")
    async def grade(request: Request, authorization: Authorization = None) -> Response:
        caller = tokens.caller(authorization, "grade")
        ask = read_grade(await _body(request, max_body_bytes))
        caller.may_see(ask.task_id)
        return _answer(await door.grade(ask))

    @app.post("/v1/grade/batch")
    async def grade_batch(request: Request, authorization: Authorization = None) -> Response:
        caller = tokens.caller(authorization, "grade")
        bodies = read_batch(await _body(request, max_body_bytes))
        turns = asyncio.Semaphore(BATCH_AT_ONCE)

        async def one(body: bytes) -> dict[str, Any]:
            async with turns:
                return await _one(door, caller, body)

        return _answer({"results": await asyncio.gather(*map(one, bodies))})

    @app.post("/v1/regrade")
    async def regrade(request: Request, authorization: Authorization = None) -> Response:
        caller = tokens.caller(authorization, "regrade")
        asked = read(RegradeRequest, await _body(request, max_body_bytes))
        caller.may_see(door.verdict(asked.verdict_id)["task"]["task_id"])
        return _answer(await door.regrade(asked.verdict_id, asked.checks))

    @app.get("/v1/verdicts/{verdict_id}")
    async def verdict(verdict_id: str, authorization: Authorization = None) -> Response:
        caller = tokens.caller(authorization, "read")
        found = door.verdict(verdict_id)
        caller.may_see(found["task"]["task_id"])
        return _answer(found)

    # Task ids hold a slash.
    @app.get("/v1/tasks/{task_id:path}/schema")
    async def schema(task_id: str, authorization: Authorization = None) -> Response:
        caller = tokens.caller(authorization, "read")
        caller.may_see(task_id)
        return _answer(await door.schema(task_id))

    app.add_exception_handler(HTTPException, _on_http)  # pyright: ignore[reportArgumentType]
    describe(app)


async def _one(door: GradeDoor, caller: Caller, body: bytes) -> dict[str, Any]:
    """A verdict or a problem; one bad request spoils no other."""
    try:
        ask = read_grade(body)
        caller.may_see(ask.task_id)
        return {"verdict": await door.grade(ask)}
    except EnvfarmError as error:
        return {"problem": _plain(problem(error))}


async def _body(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge(
                f"the body is larger than {limit} bytes",
                hint="send less, or let the grader read the database: `dsn`",
            )
        parts.append(part)
    return b"".join(parts)


def _answer(value: dict[str, Any]) -> Response:
    """Canonical JSON: the same value is the same bytes."""
    return Response(canonical_json(value).encode(), media_type="application/json")


async def _on_http(request: Request, error: HTTPException) -> JSONResponse:
    """An unknown path or method as a problem document, too."""
    body = {
        "type": "about:blank",
        "title": str(error.detail),
        "status": error.status_code,
        "detail": f"{request.method} {request.url.path}: {error.detail}",
        "code": "ERROR_CODE_INVALID_ARGUMENT",
        "hint": "see /docs",
        "retryable": False,
    }
    return JSONResponse(
        body,
        status_code=error.status_code,
        headers=error.headers,
        media_type="application/problem+json",
    )


def _plain(response: JSONResponse) -> dict[str, Any]:
    return json.loads(bytes(response.body))
