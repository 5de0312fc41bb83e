"""gRPC set-up: one interceptor that maps exceptions to statuses, health, and channels."""

from collections.abc import AsyncIterator, Awaitable, Callable
from errno import ENOSPC
from typing import Any

import grpc
import grpc.aio
from envfarm.errors import TRAILER, WIRE, ConfigError, EnvfarmError, InternalError, to_detail
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from envfarm_common import logging, tracing

log = logging.get(__name__)

OPTIONS = {"max_receive_message_length": 2**24, "max_reconnect_backoff_ms": 2000, "so_reuseport": 0}


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """The one place where an exception becomes a gRPC status and an ErrorDetail trailer."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                _guard_unary(handler.unary_unary, handler_call_details.method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                _guard_stream(handler.unary_stream, handler_call_details.method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return handler


def _guard_unary(inner: Any, method: str) -> Any:
    async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
        ids, carried = _ids(request), context.invocation_metadata() or ()
        with logging.bind(**ids):
            try:
                with tracing.serving(method.rpartition("/")[2], carried, **ids):
                    return await inner(request, context)
            except Exception as error:  # noqa: BLE001 (top level of the gRPC door)
                await _abort(context, error, method)

    return call


def _guard_stream(inner: Any, method: str) -> Any:
    async def call(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        try:
            carried = context.invocation_metadata() or ()
            with tracing.serving(method.rpartition("/")[2], carried, **_ids(request)):
                async for message in inner(request, context):
                    yield message
        except Exception as error:  # noqa: BLE001 (top level of the gRPC door)
            await _abort(context, error, method)

    return call


def _ids(request: Any) -> dict[str, str]:
    """What a request is about, for logs and traces."""
    episode_id = getattr(request, "episode_id", "")
    return {"episode_id": episode_id} if episode_id else {}


async def _abort(context: grpc.aio.ServicerContext, error: Exception, method: str) -> None:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, EnvfarmError):
        log.exception("unexpected error", method=method)
        error = _unexpected(error, method)
    await context.abort(
        WIRE[type(error)].grpc,
        error.message,
        ((TRAILER, to_detail(error).SerializeToString()),),
    )


def _unexpected(error: Exception, method: str) -> InternalError:
    """Its class only, for a message may hold what the caller must not read; a disk says where."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return InternalError(
            f"{method}: {error.filename}: {error.strerror}",
            hint="free some room on that disk, then ask again" if error.errno == ENOSPC else "",
        )
    return InternalError(f"{method}: {type(error).__name__}")


def authorization(context: grpc.aio.ServicerContext) -> str | None:
    """The `authorization` metadata of a call."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else value.decode()
    return None


async def serve(
    address: str, register: Callable[[grpc.aio.Server], None], **options: int
) -> tuple[grpc.aio.Server, int]:
    """Start a server on host:port (port 0 chooses one); returns it with its port. `options` as in
    `connect`; with so_reuseport=1 other processes may listen on the same port."""
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=_options(options))
    register(server)
    checker = health.aio.HealthServicer()  # pyright: ignore[reportAttributeAccessIssue]
    health_pb2_grpc.add_HealthServicer_to_server(checker, server)
    await checker.set("", health_pb2.HealthCheckResponse.SERVING)
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise address_taken(address) from error
    await server.start()
    return server, port


def address_taken(address: str) -> ConfigError:
    return ConfigError(
        f"cannot listen on {address}: the address is taken or not ours",
        hint="choose another port, or stop the process that holds it",
    )


def connect(
    address: str, token: str, **options: int
) -> tuple[grpc.aio.Channel, list[tuple[str, str]]]:
    """A channel and the metadata that each call on it must send; `options` are gRPC's own by name."""
    channel = grpc.aio.insecure_channel(address, options=_options(options))
    return channel, [("authorization", f"Bearer {token}")]


def _options(given: dict[str, int]) -> list[tuple[str, int]]:
    return [(f"grpc.{name}", value) for name, value in (OPTIONS | given).items()]
