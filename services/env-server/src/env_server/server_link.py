"""A session with one MCP server of one episode, through the official client.

The client's scopes must be left by the task that entered them, so one task holds the session for life;
calls come from other tasks. A call ends with an answer, or because the server has ended: it is never
sent twice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld, ForeignServerError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from env_server.cancel import cancel_all
from env_server.server_file import PinnedTool, ServerFile
from env_server.server_process import ServerProcess

T = TypeVar("T")
MAX_TOOLS = 1000
HTTP_SECONDS = 600.0
"""Of one HTTP answer; the deadline of a call is shorter and ours."""


class ServerLink:
    """`open` it, `call`, `close` it. `ended` is done, with a reason, when the server has gone."""

    def __init__(self, name: str, spec: ServerFile, process: ServerProcess | None):
        self.name = name
        self._spec = spec
        self._process = process
        self._client: Client | None = None
        self.session = secrets.token_hex(16)
        """A random text of this session, for servers that tell their sessions apart."""
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[str] = (
            process.ended if process else asyncio.get_running_loop().create_future()
        )
        self._holding: asyncio.Task[None] | None = None

    async def open(self) -> list[PinnedTool]:
        """The tools that it lists; ForeignServerError when it does not get that far."""
        self._holding = asyncio.create_task(self._hold())
        await self.unless_ended(self._ready)
        found: list[types.Tool] = []
        cursor = None
        while True:
            assert self._client
            page = await self.unless_ended(self._client.list_tools(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
            if len(found) > MAX_TOOLS:
                raise BrokenWorld(f"server {self.name} lists more than {MAX_TOOLS} tools")
        self._schemas = {tool.name: tool.input_schema for tool in found}
        return [
            PinnedTool(
                name=tool.name,
                description=tool.description or "",
                input_schema=tool.input_schema,
            )
            for tool in found
        ]

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The answer as text, and whether it is an error; ForeignServerError when there is none."""
        assert self._client
        try:
            result = await self.unless_ended(self._client.session.call_tool(tool, arguments))
        except MCPError as error:
            return f"The server refused: {error.message}", True
        except RuntimeError:
            # The official client found an answer that breaks the tool's own output schema.
            return f"The tool {tool} answered something else than it promises.", True
        return _text(result), bool(result.is_error)

    async def run_lifecycle(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call one of the env-server's own tools; ForeignServerError when it refuses. "{}" where
        world.yaml says that the server may lack it."""
        if tool not in self._schemas and self._spec.lifecycle.may_lack:
            return "{}"
        if tool not in self._schemas:
            raise BrokenWorld(f"server {self.name} has no tool {tool}, which world.yaml names")
        if "session_id" in (self._schemas[tool].get("properties") or {}):
            arguments = {**arguments, "session_id": self.session}
        text, is_error = await self.call(tool, arguments)
        if is_error:
            raise ForeignServerError(f"server {self.name}: {tool} failed")
        return text

    async def close(self) -> None:
        """End the session, and the process with all that it started."""
        self._stop.set()
        if self._process:
            await self._process.kill()
        if self._holding:
            await cancel_all([self._holding])

    def last_words(self) -> str:
        """Of its process; empty where there is none."""
        return self._process.last_words() if self._process else ""

    async def unless_ended(self, work: Awaitable[T]) -> T:
        """What `work` answers; ForeignServerError when the server ends before."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self.ended}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ForeignServerError(self.ended.result())
            return task.result()
        except MCPError as error:
            # The client tells a lost connection as an answer, a moment before we are told why.
            if error.code == types.CONNECTION_CLOSED:
                raise ForeignServerError(f"server {self.name} hung up") from error
            raise
        except (httpx2.HTTPError, OSError) as error:
            raise ForeignServerError(
                f"server {self.name}: {type(error).__name__}: {error}"
            ) from error
        finally:
            if not task.done():
                await cancel_all([task])

    async def _hold(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as down:
                transport = self._process.transport() if self._process else await self._http(down)
                self._client = await down.enter_async_context(Client(transport))
                if not self._ready.done():
                    self._ready.set_result(None)
                await self._stop.wait()
        except* (MCPError, httpx2.HTTPError, OSError, RuntimeError) as errors:
            told = errors.exceptions[0]
            while isinstance(told, BaseExceptionGroup):
                told = told.exceptions[0]
            self._lost(f"cannot be talked with: {type(told).__name__}: {told}")
        finally:
            self._lost("hung up")

    async def _http(self, down: contextlib.AsyncExitStack):
        assert self._spec.url
        web = await down.enter_async_context(
            httpx2.AsyncClient(
                headers={
                    name: value.replace("{session}", self.session)
                    for name, value in self._spec.headers.items()
                },
                timeout=HTTP_SECONDS,
            )
        )
        return streamable_http_client(self._spec.url, http_client=web)

    def _lost(self, how: str) -> None:
        if not self.ended.done():
            self.ended.set_result(f"server {self.name} {how}")


def _text(result: types.CallToolResult) -> str:
    """All text blocks, one under the other; the structure where there is no text."""
    parts = [
        block.text
        if isinstance(block, types.TextContent)
        else f"[{block.type}, which cannot be shown]"
        for block in result.content
    ]
    if not parts and result.structured_content is not None:
        return canonical_json(result.structured_content)
    return "\n".join(parts)
