"""Cancel tasks and see them end."""

import asyncio
from collections.abc import Iterable
from typing import Any

ROUND_SECONDS = 2.0
ROUNDS = 5


async def cancel_all(tasks: Iterable["asyncio.Task[Any]"], seconds: float = ROUND_SECONDS) -> bool:
    """Cancel until all have ended; False when one still runs after five rounds.

    One cancel is not enough: `asyncio.wait_for`, which database drivers use, loses it when its
    inner wait ends at the same moment (CPython before 3.12).
    """
    pending = {task for task in tasks if not task.done()}
    for _ in range(ROUNDS):
        if not pending:
            return True
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=seconds)
        for task in done:
            if not task.cancelled():
                task.exception()
    return not pending
