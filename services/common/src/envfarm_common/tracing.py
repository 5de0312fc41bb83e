"""OpenTelemetry traces, one per attempt, sent by OTLP where an endpoint is configured.

Without one nothing is recorded, carried on a wire or imported beyond the API. With one, only what
belongs to an attempt is recorded: a span begins one, or continues what a caller's `traceparent` names.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from envfarm.traces import TraceIds, trace_ids
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from starlette.types import ASGIApp, Receive, Scope, Send

_tracer = trace.get_tracer("envfarm")
_root: ContextVar[TraceIds | None] = ContextVar("root", default=None)
"""Ids of the attempt whose first span is being made."""
_is_on = False


def configure(service: str, endpoint: str | None) -> None:
    """Send this process's spans to `endpoint`/v1/traces; None sends none. Once in a process."""
    global _is_on
    if endpoint is None:
        return
    from envfarm_common.span_export import make_provider

    trace.set_tracer_provider(make_provider(service, endpoint, _root.get))
    _is_on = True


@contextmanager
def attempt(rollout_id: str) -> Iterator[None]:
    """The first span of an attempt's trace, around all of it."""
    if not _is_on:
        yield
        return
    token = _root.set(trace_ids(rollout_id))
    opened = _tracer.start_span(
        "attempt", context=Context(), attributes={"envfarm.rollout_id": rollout_id}
    )
    _root.reset(token)
    with trace.use_span(opened, end_on_exit=True):
        yield


@contextmanager
def span(name: str, **attributes: str | int | float) -> Iterator[None]:
    """A part of whatever attempt is being worked on; an error that passes stands on it."""
    if not _is_on:
        yield
        return
    with _tracer.start_as_current_span(
        name, attributes={f"envfarm.{key}": value for key, value in attributes.items() if value}
    ):
        yield


@contextmanager
def serving(name: str, carried: Iterable[tuple[str, Any]], **ids: str) -> Iterator[None]:
    """The span of a request, under the one that its caller's headers or metadata name."""
    if not _is_on:
        yield
        return
    came = propagate.extract({key: value for key, value in carried if isinstance(value, str)})
    attributes = {f"envfarm.{key}": value for key, value in ids.items()}
    with _tracer.start_as_current_span(name, came, trace.SpanKind.SERVER, attributes=attributes):
        yield


def carried() -> dict[str, str]:
    """Headers for a request to another service."""
    headers: dict[str, str] = {}
    if _is_on:
        propagate.inject(headers)
    return headers


def with_trace(metadata: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The metadata of a gRPC call, with what `carried` adds."""
    return [*metadata, *carried().items()] if _is_on else metadata


def ids() -> Mapping[str, str]:
    """trace_id and span_id of the work at hand, for logs; empty outside an attempt."""
    now = trace.get_current_span().get_span_context()
    if not (now.is_valid and now.trace_flags.sampled):
        return {}
    return {"trace_id": f"{now.trace_id:032x}", "span_id": f"{now.span_id:016x}"}


class Traced:
    """An ASGI app, each of its requests in a span."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_on or scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = [(key.decode(), value.decode("latin-1")) for key, value in scope["headers"]]
        with serving(f"{scope['method']} {scope['path']}", headers):
            await self._app(scope, receive, send)
