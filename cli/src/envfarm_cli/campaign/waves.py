"""Attempts by key: every (task, repetition) that is asked for gets exactly one with a reward.

The keys that are open go to the gateway in waves. A wave is one job: its groups are tasks, its slots
are repetitions. waves-<name>.json names each wave before it is submitted, so a campaign that was
killed goes on with the same jobs, and a job that is known is not run again. An attempt without reward
keeps its row; its key stays open and is asked for by a later wave. The order of repairs is free,
because the key decides and not the place in a file.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from envfarm.attempt_row import AttemptRow
from envfarm.v1 import episode_pb2, gateway_service_pb2, policy_pb2

from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.files import read_json, whole_lines, write_durably, write_json
from envfarm_cli.failure import BadInput, Failure
from envfarm_numbers.rows import FILE_NAME

Key = tuple[str, int]
"""(task id, repetition from 0)."""
JobKind = gateway_service_pb2.JobKind
Tick = Callable[[gateway_service_pb2.JobStatus, list[AttemptRow]], None]
SHOW_SECONDS = 1.0
SAVE_SECONDS = 20.0
"""Between two writings of all rows while a wave runs: for reports on the way."""
LONGEST_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Wave:
    """One job of the campaign."""

    job_id: str
    size: int
    """Repetitions of each of its tasks, at once."""
    tasks: dict[str, list[int]]
    """Task id → repetitions, by slot."""
    done: bool = False

    @property
    def keys(self) -> set[Key]:
        return {(task, number) for task, numbers in self.tasks.items() for number in numbers}


@dataclass(kw_only=True)
class Waves:
    """The waves of one campaign, in `folder`."""

    folder: Path
    name: str
    """Begins the ids of its jobs; unique within the gateway."""
    farm: Farm
    kind: int
    """JOB_KIND_EVAL or JOB_KIND_PROBE."""
    run_id: str
    seed: int
    policy: policy_pb2.PolicyVersion | None = None
    """Sample under this version only."""
    interface: str = ""
    """chat asks the gateway's chat endpoint; empty its engines."""
    waves: list[Wave] = field(default_factory=list)
    _read: "dict[str, tuple[int, list[AttemptRow]]]" = field(default_factory=dict)
    """Job → size of its file when it was read, and the rows."""
    _submitted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._path = self.folder / f"waves-{self.name}.json"
        value = read_json(self._path)
        try:
            self.waves = [Wave(**wave) for wave in value["waves"]] if value else []
        except (KeyError, TypeError) as error:
            raise BadInput(f"{self._path} is damaged: {error}") from error

    def rows(self) -> list[AttemptRow]:
        """Every attempt so far, of all waves, with its key; in the order of the waves."""
        last: dict[Key, int] = defaultdict(int)
        found = []
        for wave in self.waves:
            before = dict(last)
            for row in self._rows_of(wave.job_id):
                # A group's slot is a repetition only inside its own wave.
                key = (row.task_id, wave.tasks[row.task_id][row.repetition])
                attempt = before.get(key, 0) + row.attempt
                last[key] = max(last[key], attempt)
                found.append(replace(row, repetition=key[1], attempt=attempt))
        return found

    def open_keys(self, wanted: Iterable[Key]) -> list[Key]:
        """Those of `wanted` that have no attempt with a reward."""
        clean = {(row.task_id, row.repetition) for row in self.rows() if row.reward is not None}
        return [key for key in wanted if key not in clean]

    def finish(self, tick: Tick) -> None:
        """Go on with every wave that was begun."""
        for index, wave in enumerate(self.waves):
            if not wave.done:
                self._play(wave, tick)
                self.waves[index] = replace(wave, done=True)
                self._write()

    def play(self, keys: Iterable[Key], tick: Tick) -> None:
        """One attempt, or as many as the gateway allows, for each key; tasks keep their order."""
        self._plan(keys)
        self.finish(tick)

    def _plan(self, keys: Iterable[Key]) -> None:
        by_task: dict[str, list[int]] = {}
        for task, repetition in keys:
            by_task.setdefault(task, []).append(repetition)
        sizes = sorted({len(numbers) for numbers in by_task.values()}, reverse=True)
        for size in sizes:
            tasks = {task: sorted(n) for task, n in by_task.items() if len(n) == size}
            self.waves.append(Wave(f"{self.name}.w{len(self.waves)}", size, tasks))
        self._write()

    def advance(self, keys: list[Key]) -> bool:
        """Submit what is missing and look after it, without waiting; whether all of it has ended.

        One wave and no repairs: what the gateway could not finish stays open.
        """
        if not self.waves:
            self._plan(keys)
        for index, wave in enumerate(self.waves):
            if wave.done:
                continue
            if wave.job_id not in self._submitted:
                self._submit(wave)
            job = self.farm.gateway.job(wave.job_id)
            if job.state == gateway_service_pb2.JOB_STATE_RUNNING:
                return False
            if job.state != gateway_service_pb2.JOB_STATE_DONE:
                raise Failure(f"job {wave.job_id} ended early: {job.message}")
            self.waves[index] = replace(wave, done=True)
            self._write()
        return True

    @contextmanager
    def saved(self, path: Path) -> Iterator[None]:
        """Afterwards all rows are in `path`, however the block ended."""
        try:
            yield
        finally:
            self.save_rows(path)

    def save_rows(self, path: Path) -> None:
        """All rows as one attempts.jsonl."""
        write_durably(path, "".join(row.to_json() + "\n" for row in self.rows()).encode())

    def _submit(self, wave: Wave) -> None:
        self.farm.gateway.submit(
            gateway_service_pb2.SubmitJobRequest(
                job_id=wave.job_id,
                run_id=self.run_id,
                task_ids=list(wave.tasks),
                groups_per_task=1,
                group_size=wave.size,
                kind=self.kind,  # pyright: ignore[reportArgumentType]
                slot_mode=episode_pb2.SLOT_MODE_FRESH,
                keep_zero_variance=True,
                seed=self.seed,
                policy=self.policy,
                interface=self.interface,
            )
        )
        self._submitted.add(wave.job_id)

    def _play(self, wave: Wave, tick: Tick) -> None:
        self._submit(wave)
        shown, saved = 0.0, time.monotonic()

        def follow(job: gateway_service_pb2.JobStatus) -> None:
            nonlocal shown, saved
            self.farm.check()
            if time.monotonic() - shown > SHOW_SECONDS:
                shown = time.monotonic()
                tick(job, self.rows())
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save_rows(self.folder / FILE_NAME)
                saved = time.monotonic()

        self.farm.gateway.wait_for_job(wave.job_id, LONGEST_SECONDS, follow)

    def _rows_of(self, job_id: str) -> list[AttemptRow]:
        path = rows_path(self.farm.records, job_id)
        size = path.stat().st_size if path.exists() else 0
        known = self._read.get(job_id)
        if known is None or known[0] != size:
            known = self._read[job_id] = (size, read_rows(path))
        return known[1]

    def _write(self) -> None:
        write_json(self._path, {"waves": [_plain(wave) for wave in self.waves]})


def rows_path(records: Path, job_id: str) -> Path:
    """Where a gateway writes the rows of a job."""
    return records / "jobs" / job_id / "attempts.jsonl"


def read_rows(path: Path) -> list[AttemptRow]:
    """Rows of one job; empty when it has none yet."""
    lines = whole_lines(path)
    return [AttemptRow.from_json(line, f"{path}:{n}") for n, line in enumerate(lines, 1)]


def _plain(wave: Wave) -> dict[str, Any]:
    return asdict(wave)
