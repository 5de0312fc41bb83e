"""asyncio.run and asyncio.Runner for commands: a signal cancels what runs and becomes `Interrupted`."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from envfarm_cli import interrupts

T = TypeVar("T")


class Runner:
    """One loop for several coroutines, in the main thread, whose signals `caught()` has taken over."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """What `coro` returns; Interrupted when a signal came, after it was cancelled and cleaned up."""
        loop, task, is_wanted = self._runner.get_loop(), None, False

        async def watched() -> T:
            nonlocal task
            task = asyncio.current_task()
            if task is not None and is_wanted:
                task.cancel()
            return await coro

        def cancel() -> None:
            nonlocal is_wanted
            is_wanted = True
            if task is not None:
                task.cancel()
                # A handler runs between two steps of the loop, which may be about to sleep.
                loop.call_soon_threadsafe(lambda: None)

        with interrupts.cancelling(cancel):
            return self._runner.run(watched())


def run(coro: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run."""
    with Runner() as runner:
        return runner.run(coro)
