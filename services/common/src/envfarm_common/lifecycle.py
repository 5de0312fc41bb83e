"""A process's life: signals, the ready file, one clear line when it cannot start."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from envfarm.errors import EnvfarmError

from envfarm_common import logging

log = logging.get(__name__)


def stop_event() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    event = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if event.is_set():
            os._exit(128 + number)
        log.info("stopping", signal=number.name)
        event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    return event


def write_ready(path: Path | None, **facts: Any) -> None:
    """Publish addresses atomically; whoever waits for the file never reads half of it."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"pid": os.getpid(), **facts}))
    temporary.replace(path)


def remove_ready(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)


def run(main: Callable[[], Awaitable[None]]) -> int:
    """Run a service to its end; the exit status is 0 after a clean stop, 1 after an error of ours."""
    try:
        uvloop.run(main())  # pyright: ignore[reportArgumentType]
    except EnvfarmError as error:
        return _report(error)
    except BaseExceptionGroup as group:
        # Task groups of libraries wrap what passes through them.
        ours, others = group.split(EnvfarmError)
        if ours is None or others is not None:
            raise
        return _report(_first(ours))
    except KeyboardInterrupt:
        return 130
    return 0


def _report(error: BaseException) -> int:
    hint = getattr(error, "hint", "")
    print(f"error: {error}{f' — {hint}' if hint else ''}", file=sys.stderr)
    return 1


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group
