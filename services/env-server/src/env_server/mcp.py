"""The agent's door: one MCP endpoint, stateless; the bearer token alone finds the episode.

It lists and calls the episode's tools. Nothing of the lifecycle can be reached from here. Both
protocol eras are served: with the initialize handshake and without it.
"""

import json
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

from env_server.episodes import Episodes
from env_server.live import LiveEpisode

PATH = "/mcp"
MAX_BODY_BYTES = 1 << 20
_SCOPE_KEY = "envfarm.episode"


class McpDoor:
    """An ASGI app for PATH; serves while `run()` is entered."""

    def __init__(self, episodes: Episodes, other_tokens: frozenset[str]):
        self._episodes = episodes
        self._other_tokens = other_tokens
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
            await self._manager.handle_request(scope, receive, send)

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
                for tool in live.task.world.tools.values()
            ]
        )

    async def _call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = json.dumps(params.arguments or {})
        try:
            seen = await self._episodes.calls.call(_episode(context), params.name, arguments, None)
        except EnvfarmError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from error
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=seen.content)], is_error=seen.is_error
        )


def _episode(context: ServerRequestContext[Any]) -> LiveEpisode:
    live = context.request.scope.get(_SCOPE_KEY) if context.request else None
    if live is None:
        raise InternalError("a request reached the tools without its episode")
    return live
