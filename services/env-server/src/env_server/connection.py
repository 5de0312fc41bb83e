"""Open a Postgres connection so that a cancelled open leaves no half-open one behind."""

import asyncio
from typing import Any
from urllib.parse import quote, urlencode

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

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


def dsn_url(conninfo: str, role: str, password: str) -> str:
    """A URL that opens the database named like `role`, on the server of `conninfo`."""
    known = conninfo_to_dict(conninfo)
    places = {
        name: str(known[name])
        for name in ("host", "hostaddr", "port", "sslmode")
        if known.get(name)
    }
    login = f"{quote(role, safe='')}:{quote(password, safe='')}"
    return f"postgresql://{login}@/{quote(role, safe='')}?{urlencode(places)}"


def _finish(opening: "asyncio.Task[AsyncConnection[Any]]") -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result().pgconn.finish()
