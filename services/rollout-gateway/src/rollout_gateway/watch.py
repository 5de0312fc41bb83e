"""A job as it goes on: server-sent events.

event: status    data: the job's status, whenever it changed
event: group     data: how one group ended; id counts them, so that a watcher can go on
event: end       data: the last status; the stream closes
"""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

from rollout_gateway.job_status import as_json, job_status, outcome_json
from rollout_gateway.jobs import Job

POLL_SECONDS = 0.25
HEARTBEAT_SECONDS = 15.0


async def events(job: Job, stop: asyncio.Event, seen: int = 0) -> AsyncIterator[str]:
    """Until the job has ended or `stop` is set; `seen` outcomes are known to the watcher."""
    last: dict[str, Any] = {}
    quiet = 0.0
    while True:
        ended = job.ended.is_set()
        for outcome in list(islice(job.record.outcomes.values(), seen, None)):
            seen += 1
            yield _event("group", outcome_json(outcome), seen)
        now = as_json(job_status(job))
        if now != last or ended:
            last, quiet = now, 0.0
            yield _event("end" if ended else "status", now)
        elif quiet >= HEARTBEAT_SECONDS:
            quiet = 0.0
            yield ": still here\n\n"
        if ended or stop.is_set():
            return
        await _pause(job, stop)
        quiet += POLL_SECONDS


async def _pause(job: Job, stop: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (job.ended, stop)]
    await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _event(kind: str, data: dict[str, Any], number: int | None = None) -> str:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
