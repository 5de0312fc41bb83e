"""What happened, on disk: every attempt, failed ones included, and every group's outcome.

    <state_dir>/jobs/<job>/records.bin           frames of protobuf messages; what a restart reads
    <state_dir>/jobs/<job>/attempts.jsonl        one row an attempt, see envfarm.attempt_row
    <state_dir>/jobs/<job>/conversations.jsonl   the same attempts as text, for people

A frame is kind (1 byte), length (4 bytes, big endian), message. Half a frame at the end, left by a
kill, is cut off when the file is opened again, and so is a row without its attempt.
"""

import io
import json
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from envfarm.attempt_row import AttemptRow
from envfarm.errors import ConfigError
from envfarm.v1 import group_pb2
from google.protobuf.message import DecodeError

from rollout_gateway.conversation import conversation, summary
from rollout_gateway.files import naming
from rollout_gateway.rollout import Attempted

HEAD = struct.Struct(">BI")
ROLLOUT, FAILURE, OUTCOME, REOPENED = 1, 2, 3, 4


@dataclass(slots=True)
class _Place:
    rollout: int
    failure: int | None = None


@dataclass(slots=True)
class Tally:
    """Over all attempts that ended."""

    attempts: int = 0
    sampled_tokens: int = 0
    graded: int = 0
    reward: float = 0.0

    def add(self, rollout: group_pb2.Rollout) -> None:
        self.attempts += 1
        trajectory = rollout.trajectory
        self.sampled_tokens += sum(trajectory.loss_mask) or trajectory.sampled_tokens
        if rollout.verdict.HasField("reward"):
            self.graded += 1
            self.reward += rollout.verdict.reward


class _Files(NamedTuple):
    frames: io.FileIO
    rows: io.FileIO
    text: io.FileIO


class JobRecord:
    """Append-only record of one job; `rollout` finds an attempt by id.

    Its files are open from a write until `rest`, so jobs that have ended cost no descriptors.
    """

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "records.bin"
        self._places: dict[str, _Place] = {}
        self._groups: dict[str, list[_Place]] = {}
        self.outcomes: dict[str, group_pb2.GroupOutcome] = {}
        self.published = 0
        """Groups that went out."""
        self.tally = Tally()
        self.rows_path = folder / "attempts.jsonl"
        self._text_path = folder / "conversations.jsonl"
        self._files: _Files | None = None
        try:
            self._recover(self._open().frames)
            self._recover_rows(self._open().rows)
        finally:
            self.rest()

    def rest(self) -> None:
        """Close the files until something is written again."""
        if self._files is not None:
            for file in self._files:
                file.close()
            self._files = None

    def add_attempt(self, attempted: Attempted, row: AttemptRow | None = None) -> None:
        """OSError when the disk does not take it; then nothing of it is there."""
        failure, where = attempted.failure, None
        line = json.dumps(conversation(attempted.rollout, failure), ensure_ascii=False)
        with self._all_or_nothing() as files:
            # Row first: an attempt that stands in the file has its row, also after a kill.
            if row is not None:
                _write_all(files.rows, row.to_json().encode() + b"\n")
            if failure is not None:
                # Failure first: a rollout that stands in the file has its failure beside it.
                where = _append(files.frames, FAILURE, failure.SerializeToString())
            place = _append(files.frames, ROLLOUT, attempted.rollout.SerializeToString())
            _write_all(files.text, line.encode() + b"\n")
        self._index(attempted.rollout, _Place(place, where))

    def add_outcome(self, outcome: group_pb2.GroupOutcome) -> None:
        """On disk for good when this returns; OSError as for an attempt."""
        with self._all_or_nothing() as files:
            _append(files.frames, OUTCOME, outcome.SerializeToString())
            os.fsync(files.rows.fileno())
            os.fsync(files.frames.fileno())
        self._end(outcome)

    def reopen(self, group_id: str) -> None:
        """Forget the outcome of a group that was cancelled: its job goes on."""
        reopened = group_pb2.GroupOutcome(group_id=group_id).SerializeToString()
        with self._all_or_nothing() as files:
            _append(files.frames, REOPENED, reopened)
        self.outcomes.pop(group_id, None)

    def rollout(self, rollout_id: str) -> Attempted | None:
        place = self._places.get(rollout_id)
        return None if place is None else self._attempted(place)

    def summaries(self) -> list[dict[str, Any]]:
        """Every attempt without its conversation, in the order in which they ended."""
        whole = (self._attempted(place) for place in self._places.values())
        return [summary(attempted.rollout, attempted.failure) for attempted in whole]

    def attempts(self, group_id: str) -> Iterator[Attempted]:
        """All recorded attempts of a group, in the order in which they ended."""
        for place in self._groups.get(group_id, ()):
            yield self._attempted(place)

    def groups(self) -> list[str]:
        """Ids of all groups of which an attempt is on record."""
        return list(self._groups)

    def _end(self, outcome: group_pb2.GroupOutcome) -> None:
        self.outcomes[outcome.group_id] = outcome
        self.published += outcome.WhichOneof("end") == "published"

    def _index(self, rollout: group_pb2.Rollout, place: _Place) -> None:
        self._places[rollout.rollout_id] = place
        self._groups.setdefault(rollout.rollout_id.rpartition(".s")[0], []).append(place)
        self.tally.add(rollout)

    def _attempted(self, place: _Place) -> Attempted:
        rollout = group_pb2.Rollout.FromString(self._message(place.rollout))
        if place.failure is None:
            return Attempted(rollout)
        failure = group_pb2.FailedAttempt.FromString(self._message(place.failure))
        return Attempted(rollout, failure)

    def _open(self) -> _Files:
        if self._files is None:
            paths = (self._path, self.rows_path, self._text_path)
            with ExitStack() as opened:
                # Unbuffered, so that nothing of a write that failed is written later.
                files = [opened.enter_context(path.open("a+b", buffering=0)) for path in paths]
                opened.pop_all()
            self._files = _Files(*files)
        return self._files

    @contextmanager
    def _all_or_nothing(self) -> Iterator[_Files]:
        files = self._open()
        ends = [(file, file.seek(0, os.SEEK_END)) for file in files]
        try:
            with naming(self._path):
                yield files
        except OSError:
            for file, end in ends:
                file.truncate(end)
            raise

    def _message(self, offset: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(offset)
            _, length = HEAD.unpack(file.read(HEAD.size))
            return file.read(length)

    def _recover(self, frames: io.FileIO) -> None:
        size, offset = frames.seek(0, os.SEEK_END), 0
        failures: dict[str, int] = {}
        while offset + HEAD.size <= size:
            frames.seek(offset)
            kind, length = HEAD.unpack(frames.read(HEAD.size))
            if offset + HEAD.size + length > size:
                break
            self._note(kind, offset, frames.read(length), failures)
            offset += HEAD.size + length
        frames.truncate(offset)

    def _recover_rows(self, rows: io.FileIO) -> None:
        """Cut off what a kill left of the last row: half a line, or one without its attempt."""
        data = self.rows_path.read_bytes()
        end = data.rfind(b"\n") + 1
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if end and json.loads(data[start:end]).get("rollout_id") not in self._places:
            end = start
        rows.truncate(end)

    def _note(self, kind: int, offset: int, message: bytes, failures: dict[str, int]) -> None:
        try:
            if kind == FAILURE:
                failures[group_pb2.FailedAttempt.FromString(message).rollout_id] = offset
            elif kind == ROLLOUT:
                rollout = group_pb2.Rollout.FromString(message)
                self._index(rollout, _Place(offset, failures.pop(rollout.rollout_id, None)))
            elif kind == OUTCOME:
                outcome = group_pb2.GroupOutcome.FromString(message)
                self._end(outcome)
            elif kind == REOPENED:
                self.outcomes.pop(group_pb2.GroupOutcome.FromString(message).group_id, None)
            else:
                raise ConfigError(f"{self._path}: unknown frame kind {kind} at byte {offset}")
        except DecodeError as error:
            raise ConfigError(f"{self._path}: damaged at byte {offset}") from error


def _append(frames: io.FileIO, kind: int, message: bytes) -> int:
    """Where the frame begins."""
    offset = frames.seek(0, os.SEEK_END)
    _write_all(frames, HEAD.pack(kind, len(message)) + message)
    return offset


def _write_all(file: io.FileIO, data: bytes) -> None:
    """A full disk takes a part first; the rest then meets the error."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
