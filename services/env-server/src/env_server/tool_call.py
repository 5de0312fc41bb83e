"""One tool call: one transaction, read-only for READ tools, always ended here and nowhere else.

Whatever the model provoked (bad arguments, constraints, business rules, SQL that Postgres refuses)
is an observation and leaves no trace in the database. What is ours is an exception.
"""

import asyncio
import contextlib
import json
import re
import secrets
import time
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from typing import Any, LiteralString, cast
from uuid import UUID

import psycopg
from envfarm.canonical import canonical_json
from envfarm.errors import BrokenWorld, DatabaseError, DeadlineError
from envfarm_common import logging
from psycopg import AsyncConnection, AsyncCursor, pq
from psycopg.rows import dict_row

from env_server.cancel import cancel_all
from env_server.episode_files import EpisodeFiles
from env_server.file_view import FileView
from env_server.toolkit import Access, Call, Refused, Tool

log = logging.get(__name__)

MAX_RESULT_BYTES = 1 << 20
END_SECONDS = 5.0
"""Longest wait for COMMIT or ROLLBACK; beyond it the connection is given up."""

_OURS = {"08", "53", "57", "58", "XX"}
"""SQLSTATE classes that are the infrastructure's doing."""
_PROVOKED = {"53400", "57014", "XX000"}
"""Exceptions from it: a quota of ours, a timeout that SQL had set itself, and what Postgres calls
internal yet survives, such as a text that would be larger than a gigabyte."""
_ALLOWED = re.compile(
    r"\s*(?:(?:--[^\n]*\n|/\*.*?\*/)\s*)*\(*\s*"
    r"(select|insert|update|delete|merge|with|values|table|savepoint|release|rollback\s+to)\b",
    re.IGNORECASE | re.DOTALL,
)


class ToolCursor(AsyncCursor[dict[str, Any]]):
    """A cursor that runs one statement at a time, none of which can end the transaction."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        text = query if isinstance(query, str | bytes) else query.as_string(self)
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        if not _ALLOWED.match(text):
            raise Refused("This statement is not allowed here; only rows can be read or changed.")
        await super().execute(query, params, **options)  # pyright: ignore[reportArgumentType]
        return self

    def _execute_send(
        self, query: Any, *, force_extended: bool = False, binary: Any = None
    ) -> None:
        # The extended protocol takes exactly one statement, so "…; COMMIT" is a syntax error.
        super()._execute_send(query, force_extended=True, binary=binary)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model sees."""

    content: str
    is_error: bool
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        return "refused" if self.is_error else "ok"


async def run(
    conn: AsyncConnection[Any],
    tool: Tool,
    arguments_json: str,
    now: datetime,
    deadline: float,
    files: EpisodeFiles | None = None,
) -> Observation:
    """Run it within `deadline` seconds; changes of `files` last when its transaction does.

    DeadlineError after a rollback; DatabaseError when Postgres is gone, the outcome of the
    transaction is unknown or files cannot be written; BrokenWorld when the tool ended its own
    transaction.
    """
    begin = time.monotonic()

    def seen(content: str, is_error: bool) -> Observation:
        return Observation(content, is_error, time.monotonic() - begin)

    try:
        arguments = tool.parse(arguments_json)
    except Refused as refusal:
        return seen(str(refusal), True)
    marker = secrets.token_hex(8)
    view = files.view(is_readonly=tool.access is Access.READ) if files else None
    body = asyncio.create_task(_body(conn, tool, arguments, now, marker, view))
    try:
        finished, _ = await asyncio.wait({body}, timeout=deadline)
    except asyncio.CancelledError:
        await _stop(body)
        await _rollback(conn)
        raise
    if not finished:
        await _stop(body)
        await _rollback(conn)
        raise DeadlineError(f"tool {tool.name} ran longer than {deadline:g} s and was undone")
    error = body.exception()
    if error is None:
        # Begun, it is ended: whoever cancels now finds database and files in step.
        keeping = asyncio.create_task(_keep(conn, tool, marker, files, view))
        try:
            error = await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.wait({keeping})
            await _rollback(conn)
            keeping.result()
            raise
        if error is None:
            return seen(body.result(), False)
    else:
        await _require_own_transaction(conn, tool, marker)
    await _rollback(conn)
    return seen(_observe(conn, tool, error), True)


async def _body(
    conn: AsyncConnection[Any],
    tool: Tool,
    arguments: dict[str, Any],
    now: datetime,
    marker: str,
    files: FileView | None,
) -> str:
    mode = "READ ONLY" if tool.access is Access.READ else "READ WRITE"
    begin = f"BEGIN {mode}; SET LOCAL envfarm.call = '{marker}'"
    await conn.execute(cast(LiteralString, begin))
    async with ToolCursor(conn, row_factory=dict_row) as cursor:
        result = await tool.function(Call(cursor, now, files), **arguments)
    content = encode(result)
    if len(content.encode()) > MAX_RESULT_BYTES:
        raise Refused("The result is larger than 1 MiB; ask for less.")
    return content


async def _keep(
    conn: AsyncConnection[Any],
    tool: Tool,
    marker: str,
    files: EpisodeFiles | None,
    view: FileView | None,
) -> BaseException | None:
    """Commit, then write the files; what `_commit` answers."""
    error = await _commit(conn, tool, marker)
    if error is None and files and view and view.changes:
        await _write(files, view, tool)
    return error


async def _write(files: EpisodeFiles, view: FileView, tool: Tool) -> None:
    try:
        await asyncio.to_thread(files.apply, view.changes)
    except OSError as error:
        # The transaction is committed and its files are not: nobody can tell this state any more.
        raise DatabaseError(f"tool {tool.name}: files not written: {error.strerror}") from error


async def _require_own_transaction(conn: AsyncConnection[Any], tool: Tool, marker: str) -> None:
    """BrokenWorld when the tool reached around its cursor and ended the transaction."""
    status = conn.pgconn.transaction_status
    if status in (pq.TransactionStatus.INERROR, pq.TransactionStatus.UNKNOWN):
        return
    if status == pq.TransactionStatus.INTRANS:
        # SET LOCAL ends with its transaction, so the marker is gone if the tool ended that.
        try:
            cursor = await conn.execute("SELECT current_setting('envfarm.call', true)")
        except psycopg.Error as error:
            raise DatabaseError(f"tool {tool.name}: Postgres failed: {error}") from error
        row = await cursor.fetchone()
        if row and row[0] == marker:
            return
    await _rollback(conn)
    raise BrokenWorld(f"tool {tool.name} ended its own transaction")


async def _stop(body: asyncio.Task[str]) -> None:
    """Cancel and wait; psycopg sends the cancel request to the server by itself."""
    if not await cancel_all([body], seconds=END_SECONDS):
        log.error("a tool does not let itself be cancelled")


async def _commit(conn: AsyncConnection[Any], tool: Tool, marker: str) -> BaseException | None:
    """None when committed; the error when Postgres refused and so rolled back.

    BrokenWorld when the tool has ended its own transaction: SET LOCAL ends with it, so the first
    statement divides by zero, which keeps the second from being reached and us in an error state.
    """
    text = (
        "SELECT 1 / (pg_catalog.current_setting('envfarm.call', true)"
        f" IS NOT DISTINCT FROM '{marker}')::int; COMMIT"
    )
    if conn.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        raise BrokenWorld(f"tool {tool.name} ended its own transaction")
    aborted = conn.pgconn.transaction_status == pq.TransactionStatus.INERROR
    try:
        async with asyncio.timeout(END_SECONDS):
            await conn.execute(cast(LiteralString, text))
    except TimeoutError as error:
        await conn.close()
        raise DatabaseError("COMMIT did not answer; its outcome is unknown") from error
    except psycopg.Error as error:
        if aborted or conn.pgconn.transaction_status != pq.TransactionStatus.INERROR:
            return error
        await _rollback(conn)
        raise BrokenWorld(f"tool {tool.name} ended its own transaction") from error
    return None


async def _rollback(conn: AsyncConnection[Any]) -> None:
    """Undo, or close the connection so that nobody goes on in an unknown state."""
    if conn.closed:
        return
    if conn.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        return
    try:
        async with asyncio.timeout(END_SECONDS):
            await conn.execute("ROLLBACK")
    except (psycopg.Error, TimeoutError):
        with contextlib.suppress(psycopg.Error):
            await conn.close()


def _observe(conn: AsyncConnection[Any], tool: Tool, error: BaseException) -> str:
    """The sentence for the model, or the exception that is ours."""
    if isinstance(error, Refused):
        return str(error) or "Refused."
    if isinstance(error, BrokenWorld | DatabaseError):
        raise error
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        if conn.closed or (state[:2] in _OURS and state not in _PROVOKED):
            raise DatabaseError(f"tool {tool.name}: Postgres failed: {error}") from error
        detail = error.diag.message_detail
        message = error.diag.message_primary or str(error)
        return f"The database refused: {message}." + (f" {detail}" if detail else "")
    if not isinstance(error, Exception):
        raise error
    log.error("tool failed", tool=tool.name, exc_info=error)
    return f"The tool {tool.name} failed on these arguments."


def encode(value: Any) -> str:
    """Canonical JSON: Decimal and UUID as text, dates in ISO 8601, durations in seconds."""
    return canonical_json(json.loads(json.dumps(value, default=_plain, allow_nan=False)))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"a tool cannot answer a {type(value).__name__}")
