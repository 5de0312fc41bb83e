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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class JobRecord:
    """Append-only record of one job; `rollout` finds an attempt by id."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "records.bin"
        self._places: dict[str, _Place] = {}
        self._groups: dict[str, list[_Place]] = {}
        self.outcomes: dict[str, group_pb2.GroupOutcome] = {}
        self.published = 0
        """Groups that went out."""
        self.tally = Tally()
        # Unbuffered, so that nothing of a write that failed is written later.
        self._file = self._path.open("a+b", buffering=0)
        self._recover()
        self.rows_path = folder / "attempts.jsonl"
        self._rows = self.rows_path.open("a+b", buffering=0)
        self._recover_rows()
        self._text = (folder / "conversations.jsonl").open("ab", buffering=0)
        self._files = (self._file, self._rows, self._text)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def add_attempt(self, attempted: Attempted, row: AttemptRow | None = None) -> None:
        """OSError when the disk does not take it; then nothing of it is there."""
        failure, where = attempted.failure, None
        line = json.dumps(conversation(attempted.rollout, failure), ensure_ascii=False)
        with self._all_or_nothing():
            # Row first: an attempt that stands in the file has its row, also after a kill.
            if row is not None:
                _write_all(self._rows, row.to_json().encode() + b"\n")
            if failure is not None:
                # Failure first: a rollout that stands in the file has its failure beside it.
                where = self._append(FAILURE, failure.SerializeToString())
            place = self._append(ROLLOUT, attempted.rollout.SerializeToString())
            _write_all(self._text, line.encode() + b"\n")
        self._index(attempted.rollout, _Place(place, where))

    def add_outcome(self, outcome: group_pb2.GroupOutcome) -> None:
        """On disk for good when this returns; OSError as for an attempt."""
        with self._all_or_nothing():
            self._append(OUTCOME, outcome.SerializeToString())
            os.fsync(self._rows.fileno())
            os.fsync(self._file.fileno())
        self._end(outcome)

    def reopen(self, group_id: str) -> None:
        """Forget the outcome of a group that was cancelled: its job goes on."""
        with self._all_or_nothing():
            self._append(REOPENED, group_pb2.GroupOutcome(group_id=group_id).SerializeToString())
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

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        ends = [(file, file.seek(0, os.SEEK_END)) for file in self._files]
        try:
            with naming(self._path):
                yield
        except OSError:
            for file, end in ends:
                file.truncate(end)
            raise

    def _append(self, kind: int, message: bytes) -> int:
        offset = self._file.seek(0, os.SEEK_END)
        _write_all(self._file, HEAD.pack(kind, len(message)) + message)
        return offset

    def _message(self, offset: int) -> bytes:
        self._file.seek(offset)
        _, length = HEAD.unpack(self._file.read(HEAD.size))
        return self._file.read(length)

    def _recover(self) -> None:
        size, offset = self._file.seek(0, os.SEEK_END), 0
        failures: dict[str, int] = {}
        while offset + HEAD.size <= size:
            self._file.seek(offset)
            kind, length = HEAD.unpack(self._file.read(HEAD.size))
            if offset + HEAD.size + length > size:
                break
            self._note(kind, offset, self._file.read(length), failures)
            offset += HEAD.size + length
        self._file.truncate(offset)

    def _recover_rows(self) -> None:
        """Cut off what a kill left of the last row: half a line, or one without its attempt."""
        data = self.rows_path.read_bytes()
        end = data.rfind(b"\n") + 1
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if end and json.loads(data[start:end]).get("rollout_id") not in self._places:
            end = start
        self._rows.truncate(end)

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


def _write_all(file: io.FileIO, data: bytes) -> None:
    """A full disk takes a part first; the rest then meets the error."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
