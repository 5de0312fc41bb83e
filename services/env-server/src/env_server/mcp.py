"""The agent's door: one MCP endpoint, stateless; the bearer token alone finds the episode.

It lists and calls the episode's tools. Nothing of the lifecycle can be reached from here. Both
protocol eras are served: with the initialize handshake and without it. A call ends, undone, when its
client hangs up or says that it is cancelled.
"""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import mcp_types as types
from envfarm.errors import (
    EnvfarmError,
    InternalError,
    Unauthenticated,
    WrongScope,
)
from envfarm_common import auth, logging
from envfarm_common.http import problem
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from env_server.cancel import cancel_all
from env_server.episodes import Episodes
from env_server.live import LiveEpisode
from env_server.mcp_request import WatchedRequest
from env_server.tool_call import Observation

PATH = "/mcp"
MAX_BODY_BYTES = 1 << 20
_SCOPE_KEY = "envfarm.episode"
_REQUEST_KEY = "envfarm.request"


class McpDoor:
    """An ASGI app for PATH; serves while `run()` is entered."""

    def __init__(self, episodes: Episodes, other_tokens: frozenset[str]):
        self._episodes = episodes
        self._other_tokens = other_tokens
        self._running: dict[tuple[str, str | int], asyncio.Event] = {}
        """Calls that run, by episode and JSON-RPC id; to set one is to cancel it."""
        server = Server("envfarm", on_list_tools=self._list, on_call_tool=self._call)
        self._manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=MAX_BODY_BYTES
        )
        self.run = self._manager.run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            live = self._find(Headers(scope=scope).get("authorization"))
        except EnvfarmError as error:
            await problem(error)(scope, receive, send)
            return
        scope[_SCOPE_KEY] = live
        with logging.bind(episode_id=live.episode_id):
            async with WatchedRequest(receive) as request:
                scope[_REQUEST_KEY] = request
                await self._manager.handle_request(scope, request.receive, send)
        running = self._running.get((live.episode_id, request.cancels() or ""))
        if running:
            running.set()

    def _find(self, header: str | None) -> LiveEpisode:
        token = auth.bearer(header)
        live = self._episodes.find_by_token(token)
        if live:
            return live
        if token in self._other_tokens:
            raise WrongScope("this door takes the token of one episode")
        raise Unauthenticated("no live episode has this token")

    async def _list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        live = _episode(context)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=json.loads(tool.schema_json),
                )
                for tool in live.task.world.offered.values()
            ]
        )

    async def _call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        live = _episode(context)
        arguments = json.dumps(params.arguments or {})
        try:
            seen = await self._unless_left(
                context,
                live,
                self._episodes.calls.call(live, params.name, arguments, None),
                is_undoable=params.name not in live.task.world.foreign,
            )
        except EnvfarmError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=seen.content)],
            structured_content=None if seen.is_error else _structured(seen.content),
            is_error=seen.is_error,
        )

    async def _unless_left(
        self,
        context: ServerRequestContext[Any],
        live: LiveEpisode,
        work: Awaitable[Observation],
        *,
        is_undoable: bool,
    ) -> Observation:
        """What `work` answers; it is cancelled when nobody waits for that any more."""
        assert context.request
        left: asyncio.Event = context.request.scope[_REQUEST_KEY].left
        key = (live.episode_id, context.request_id or "")
        self._running[key] = left
        call, leaving = asyncio.ensure_future(work), asyncio.create_task(left.wait())
        try:
            await asyncio.wait({call, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                undone = "and undone" if is_undoable else "but may still take effect"
                raise MCPError(types.INTERNAL_ERROR, f"the call was cancelled {undone}")
            return call.result()
        finally:
            if self._running.get(key) is left:
                del self._running[key]
            await cancel_all([call, leaving])


def _structured(content: str) -> dict[str, Any] | None:
    """The answer as an object, where it is one."""
    try:
        value = json.loads(content)
    except ValueError:
        # A foreign server answers what it likes.
        return None
    return value if isinstance(value, dict) else None


def _episode(context: ServerRequestContext[Any]) -> LiveEpisode:
    live = context.request.scope.get(_SCOPE_KEY) if context.request else None
    if live is None:
        raise InternalError("a request reached the tools without its episode")
    return live
