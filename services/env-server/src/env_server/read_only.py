"""A grader's read-only query: its own role, a READ ONLY transaction, two seconds, counted rows."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import psycopg
from envfarm.canonical import canonical_row
from envfarm.errors import DatabaseError, DeadlineError, InvalidArgument
from psycopg import AsyncConnection

QUERY_SECONDS = 2.0
DEFAULT_ROWS = 1_000
MAX_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Answer:
    columns: tuple[str, ...]
    rows_json: tuple[str, ...]


async def query(conn: AsyncConnection[Any], text: str, max_rows: int) -> Answer:
    """Run one SELECT and close `conn`.

    InvalidArgument for bad SQL or more than `max_rows` rows (0 takes 1,000); DeadlineError after
    two seconds; DatabaseError when Postgres fails.
    """
    limit = max_rows or DEFAULT_ROWS
    if limit > MAX_ROWS:
        raise InvalidArgument(f"max_rows is at most {MAX_ROWS}")
    inner = text.strip().rstrip(";")
    try:
        async with asyncio.timeout(QUERY_SECONDS):
            return await _run(conn, inner, limit)
    except TimeoutError as error:
        raise DeadlineError(f"the query ran longer than {QUERY_SECONDS:g} s") from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise InvalidArgument(f"the query is refused: {error.diag.message_primary}") from error
    except psycopg.OperationalError as error:
        raise DatabaseError(f"the query failed: {error}") from error
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        raise InvalidArgument(f"the query is refused: {message}") from error
    finally:
        with contextlib.suppress(psycopg.Error):
            await conn.close()


async def _run(conn: AsyncConnection[Any], inner: str, limit: int) -> Answer:
    await conn.execute("BEGIN READ ONLY")
    # A parameter makes it the extended protocol, which takes exactly one statement. The line
    # break keeps a comment at the end of the query from swallowing the bracket.
    shape = await conn.execute(
        f"SELECT q.* FROM (\n{_escaped(inner)}\n) q LIMIT %s",  # pyright: ignore[reportArgumentType]
        (0,),
    )
    columns = tuple(column.name for column in shape.description or ())
    if len(set(columns)) != len(columns):
        raise InvalidArgument(f"the query names a column twice: {', '.join(columns)}")
    cursor = await conn.execute(
        f"SELECT to_jsonb(q)::text FROM (\n{_escaped(inner)}\n) q LIMIT %s",  # pyright: ignore[reportArgumentType]
        (limit + 1,),
    )
    rows = await cursor.fetchall()
    if len(rows) > limit:
        raise InvalidArgument(
            f"the query gives more than {limit} rows", hint="select fewer, or raise max_rows"
        )
    return Answer(columns, tuple(canonical_row(row[0]) for row in rows))


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
