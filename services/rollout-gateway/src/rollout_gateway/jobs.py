"""Jobs: what is owed, and how far it came. A job survives a kill of the process.

<state_dir>/jobs/<job>/job.json     what was asked for, and the job's state
<state_dir>/jobs/<job>/outbox/      formed groups that are not yet known to be published
<state_dir>/jobs/<job>/records.bin  see record.py
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError
from envfarm.v1 import group_pb2
from envfarm_common import logging

from rollout_gateway.files import read_json, write_bytes, write_json
from rollout_gateway.job_spec import JobKind, JobSpec
from rollout_gateway.record import JobRecord
from rollout_gateway.rollout import Attempt

log = logging.get(__name__)

DISK_SECONDS = 0.5


class JobState(StrEnum):
    RUNNING = "running"
    CANCELLING = "cancelling"
    """Asked to stop; groups that are formed are still published."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


ACTIVE = (JobState.RUNNING, JobState.CANCELLING)


class Job:
    def __init__(
        self,
        folder: Path,
        spec: JobSpec,
        state: JobState,
        message: str = "",
        submitted_at: float = 0.0,
        ended_at: float = 0.0,
    ):
        self.spec = spec
        self.state = state
        self.message = message
        self.submitted_at, self.ended_at = submitted_at, ended_at
        """Unix seconds."""
        self.record = JobRecord(folder)
        self.live: dict[str, Attempt] = {}
        """Attempts that have a seat and run, by rollout id."""
        self.running_groups = 0
        self.live_refills: Counter[str] = Counter()
        """Attempts without reward of groups that have not ended."""
        self.replaced = self.filled = self.dropped = 0
        """Of a stream: groups with equal rewards, and groups that the learner could not use."""
        self.parked: dict[str, str] = {}
        """Reason by task that is left out for now."""
        self.bands: dict[str, str] = {}
        """Of a stream that looks at its tasks again: the band of each that it has looked at."""
        self.stopping = asyncio.Event()
        """Set when the job shall end early."""
        self.ended = asyncio.Event()
        self.changes = 0
        """Raised with everything that a watcher wants to see."""
        self.folder = folder
        self._waits: Counter[str] = Counter()
        if state is JobState.CANCELLING:
            self.stopping.set()
        if state not in ACTIVE:
            self.ended.set()

    @property
    def waiting(self) -> dict[str, int]:
        """What its work waits for, and how much of it."""
        return {what: count for what, count in self._waits.items() if what and count > 0}

    @property
    def waiting_for(self) -> str:
        """What most of its work waits for; empty when nothing."""
        # An attempt that waits for a seat is not held up by anything.
        waiting = [(n, what) for what, n in self.waiting.items() if what != "seat"]
        return max(waiting)[1] if waiting else ""

    @contextmanager
    def waits_for(self, what: str) -> Iterator[None]:
        self._waits[what] += 1
        try:
            yield
        finally:
            self._waits[what] -= 1

    async def on_disk(self, write: Callable[[], None]) -> None:
        """Call `write` until the disk takes it: a full disk holds a job up and fails nobody."""
        while True:
            try:
                write()
                self.changes += 1
                return
            except OSError as error:
                log.warning(
                    "the disk takes no records; free some room on it and the job goes on",
                    job_id=self.spec.job_id,
                    error=str(error),
                )
            with self.waits_for("disk"):
                await asyncio.sleep(DISK_SECONDS)

    def move(self, state: JobState, message: str = "") -> None:
        """OSError when the disk does not take it; then nothing has changed."""
        ended_at = 0.0 if state in ACTIVE else time.time()
        self._save(state, message, ended_at)
        self.enter(state, message)

    def enter(self, state: JobState, message: str = "") -> None:
        """`move` without a word on disk; a restart goes on from what stands there."""
        self.state, self.message = state, message
        self.changes += 1
        self.ended_at = 0.0 if state in ACTIVE else time.time()
        if state is JobState.CANCELLING:
            self.stopping.set()
        if state is JobState.RUNNING:
            self.stopping.clear()
        if state in ACTIVE:
            self.ended.clear()
        else:
            self.record.rest()
            self.ended.set()

    def reopen_cancelled(self) -> None:
        """Groups that a cancel ended are owed again; OSError when the disk does not take it."""
        for group, outcome in list(self.record.outcomes.items()):
            if outcome.cancelled == group_pb2.CANCEL_REASON_JOB_CANCELLED:
                self.record.reopen(group)

    def _save(self, state: JobState, message: str, ended_at: float) -> None:
        value = {
            "spec": asdict(self.spec),
            "state": state,
            "message": message,
            "submitted_at": self.submitted_at,
            "ended_at": ended_at,
        }
        write_json(self.folder / "job.json", value)

    def put_in_outbox(self, group: group_pb2.Group) -> None:
        write_bytes(self._outbox(group.group_id), group.SerializeToString(deterministic=True))

    def read_outbox(self, group: str) -> group_pb2.Group | None:
        path = self._outbox(group)
        return group_pb2.Group.FromString(path.read_bytes()) if path.exists() else None

    def outbox(self) -> list[str]:
        """Ids of the groups that lie in it."""
        return sorted(path.stem for path in (self.folder / "outbox").glob("*.pb"))

    def clear_outbox(self, group: str) -> None:
        self._outbox(group).unlink(missing_ok=True)

    def _outbox(self, group: str) -> Path:
        return self.folder / "outbox" / f"{group}.pb"


class Jobs:
    """All jobs under one folder."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._jobs: dict[str, Job] = {}
        for path in sorted(folder.glob("*/job.json")):
            job = _load(path)
            self._jobs[job.spec.job_id] = job

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def find(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def find_rollout(self, rollout_id: str) -> Any:
        """The recorded attempt of that id, in whatever job; None when there is none."""
        for job in self._jobs.values():
            if rollout_id.startswith(job.spec.job_id + "."):
                found = job.record.rollout(rollout_id)
                if found is not None:
                    return found
        return None

    def add(self, spec: JobSpec) -> Job:
        """OSError when the disk does not take it; then there is no such job."""
        folder = self._folder / spec.job_id
        job = Job(folder, spec, JobState.RUNNING, submitted_at=time.time())
        try:
            job.move(JobState.RUNNING)
        except OSError:
            job.record.rest()
            raise
        self._jobs[spec.job_id] = job
        return job

    def close(self) -> None:
        for job in self._jobs.values():
            job.record.rest()


def read_spec(path: Path) -> tuple[JobSpec, dict[str, Any]]:
    """What a job.json asks for, and all that it says; ConfigError when it is damaged."""
    value = read_json(path)
    try:
        told = value["spec"]
        known = {
            **told,
            "task_ids": tuple(told["task_ids"]),
            "kind": JobKind(told.get("kind", "train" if told["publish"] else "probe")),
        }
        return JobSpec(**known), value
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged: {error!r}", hint="restore it from a copy, or remove its folder"
        ) from error


def _load(path: Path) -> Job:
    spec, value = read_spec(path)
    try:
        times = (value.get("submitted_at", 0.0), value.get("ended_at", 0.0))
        return Job(path.parent, spec, JobState(value["state"]), value["message"], *times)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged: {error!r}", hint="restore it from a copy, or remove its folder"
        ) from error
