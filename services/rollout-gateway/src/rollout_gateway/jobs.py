"""Jobs: which groups are owed, and what came of them. A job survives a kill of the process.

<state_dir>/jobs/<job>/job.json     what was asked for, and the job's state
<state_dir>/jobs/<job>/outbox/      formed groups that are not yet known to be published
<state_dir>/jobs/<job>/records.bin  see record.py
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from envfarm.errors import ConfigError, InvalidArgument
from envfarm.ids import group_id
from envfarm.v1 import group_pb2
from envfarm_common import logging

from rollout_gateway.files import read_json, write_bytes, write_json
from rollout_gateway.record import JobRecord

log = logging.get(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MAX_GROUPS = 1_000_000
DISK_SECONDS = 0.5


class JobState(StrEnum):
    RUNNING = "running"
    CANCELLING = "cancelling"
    """Asked to stop; groups that are formed are still published."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    job_id: str
    run_id: str
    task_ids: tuple[str, ...]
    groups_per_task: int
    group_size: int
    publish: bool
    keep_zero_variance: bool

    def check(self) -> None:
        """InvalidArgument with what is wrong."""
        for what, name in (("job_id", self.job_id), ("run_id", self.run_id)):
            if not NAME.fullmatch(name):
                raise InvalidArgument(
                    f"{what} {name!r}: letters, digits, '.', '_' and '-', at most 80, are allowed"
                )
        if not self.task_ids or self.groups_per_task < 1:
            raise InvalidArgument("a job needs at least one task and one group per task")
        if len(self.task_ids) * self.groups_per_task > MAX_GROUPS:
            raise InvalidArgument(f"a job has at most {MAX_GROUPS} groups")
        if not 1 <= self.group_size <= 1024:
            raise InvalidArgument(f"group_size {self.group_size} is not within 1 to 1024")

    def groups(self) -> Iterator[tuple[str, str]]:
        """(group id, task id) of everything owed; the same ids in every process that runs the job."""
        for index, task_id in enumerate(self.task_ids):
            for number in range(self.groups_per_task):
                yield group_id(self.job_id, index, number), task_id


class Job:
    def __init__(self, folder: Path, spec: JobSpec, state: JobState, message: str = ""):
        self.spec = spec
        self.state = state
        self.message = message
        self.record = JobRecord(folder)
        self.running_rollouts = 0
        self.live_refills: Counter[str] = Counter()
        """Attempts without reward of groups that have not ended."""
        self.stopping = asyncio.Event()
        """Set when the job shall end early."""
        self.ended = asyncio.Event()
        self._folder = folder
        self._waits: Counter[str] = Counter()
        if state is JobState.CANCELLING:
            self.stopping.set()

    @property
    def waiting_for(self) -> str:
        """What most of its work waits for; empty when nothing."""
        waiting = [(count, what) for what, count in self._waits.items() if what and count > 0]
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
                return write()
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
        self._save(state, message)
        self.enter(state, message)

    def enter(self, state: JobState, message: str = "") -> None:
        """`move` without a word on disk; a restart goes on from what stands there."""
        self.state, self.message = state, message
        if state is JobState.CANCELLING:
            self.stopping.set()
        if state not in (JobState.RUNNING, JobState.CANCELLING):
            self.ended.set()

    def _save(self, state: JobState, message: str) -> None:
        value = {"spec": asdict(self.spec), "state": state, "message": message}
        write_json(self._folder / "job.json", value)

    def put_in_outbox(self, group: group_pb2.Group) -> None:
        write_bytes(self._outbox(group.group_id), group.SerializeToString(deterministic=True))

    def read_outbox(self, group: str) -> group_pb2.Group | None:
        path = self._outbox(group)
        return group_pb2.Group.FromString(path.read_bytes()) if path.exists() else None

    def clear_outbox(self, group: str) -> None:
        self._outbox(group).unlink(missing_ok=True)

    def _outbox(self, group: str) -> Path:
        return self._folder / "outbox" / f"{group}.pb"


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
        job = Job(self._folder / spec.job_id, spec, JobState.RUNNING)
        try:
            job.move(JobState.RUNNING)
        except OSError:
            job.record.close()
            raise
        self._jobs[spec.job_id] = job
        return job

    def close(self) -> None:
        for job in self._jobs.values():
            job.record.close()


def _load(path: Path) -> Job:
    value = read_json(path)
    try:
        spec = JobSpec(**{**value["spec"], "task_ids": tuple(value["spec"]["task_ids"])})
        return Job(path.parent, spec, JobState(value["state"]), value["message"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged: {error!r}", hint="restore it from a copy, or remove its folder"
        ) from error
