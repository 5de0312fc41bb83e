"""Open a Postgres connection so that a cancelled open leaves no half-open one behind."""

import asyncio
from typing import Any

from psycopg import AsyncConnection

CONNECT_SECONDS = 10


async def connect(
    conninfo: str, *, prepares: bool = False, **parameters: Any
) -> AsyncConnection[Any]:
    """An autocommit connection; `prepares` lets it keep the statements that it sees twice.

    A backend whose client stopped talking during authentication blocks every DROP DATABASE of its
    server until authentication_timeout. So a connect is never cancelled but ends by itself.
    """
    opening = asyncio.create_task(
        AsyncConnection.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=1 if prepares else None,
            connect_timeout=CONNECT_SECONDS,
            **parameters,
        )
    )
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_finish)
        raise


def _finish(opening: "asyncio.Task[AsyncConnection[Any]]") -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result().pgconn.finish()
