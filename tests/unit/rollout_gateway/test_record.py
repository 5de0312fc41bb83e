"""What a restart finds on disk."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from envfarm.errors import ConfigError, InvalidArgument
from envfarm.v1 import group_pb2, trajectory_pb2, verdict_pb2

from rollout_gateway.files import lock_folder
from rollout_gateway.job_spec import JobKind, JobSpec
from rollout_gateway.jobs import Jobs, JobState
from rollout_gateway.record import JobRecord
from rollout_gateway.rollout import Attempted

SPEC = JobSpec(
    job_id="job",
    run_id="run",
    task_ids=("orders/a", "orders/b"),
    groups_per_task=2,
    group_size=8,
    publish=True,
    keep_zero_variance=False,
    kind=JobKind.TRAIN,
)


def clean(rollout_id: str) -> Attempted:
    trajectory = trajectory_pb2.Trajectory(
        rollout_id=rollout_id, status=trajectory_pb2.ROLLOUT_STATUS_COMPLETED
    )
    verdict = verdict_pb2.Verdict(reward=1.0, status=verdict_pb2.VERDICT_STATUS_GRADED)
    return Attempted(
        group_pb2.Rollout(rollout_id=rollout_id, trajectory=trajectory, verdict=verdict)
    )


def failed(rollout_id: str) -> Attempted:
    trajectory = trajectory_pb2.Trajectory(status=trajectory_pb2.ROLLOUT_STATUS_FAILED_ENV)
    return Attempted(
        group_pb2.Rollout(rollout_id=rollout_id, trajectory=trajectory),
        group_pb2.FailedAttempt(rollout_id=rollout_id, error_class="DatabaseError"),
    )


def test_attempts_and_outcomes_come_back(tmp_path: Path):
    record = JobRecord(tmp_path)
    record.add_attempt(failed("job.0.0.s0.a1"))
    record.add_attempt(clean("job.0.0.s0.a2"))
    record.add_attempt(clean("job.0.1.s0.a1"))
    record.add_outcome(group_pb2.GroupOutcome(group_id="job.0.1", published="1-1"))
    record.rest()

    record = JobRecord(tmp_path)
    assert list(record.outcomes) == ["job.0.1"]
    found = list(record.attempts("job.0.0"))
    assert [a.rollout.rollout_id for a in found] == ["job.0.0.s0.a1", "job.0.0.s0.a2"]
    assert [a.failure is not None for a in found] == [True, False]
    assert record.rollout("job.9.9.s0.a1") is None
    record.rest()


def test_a_job_that_has_ended_holds_no_file_open_and_can_be_written_again(tmp_path: Path):
    before = len(os.listdir("/proc/self/fd"))
    jobs = Jobs(tmp_path)
    job = jobs.add(SPEC)
    job.record.add_attempt(clean("job.0.0.s0.a1"))
    assert len(os.listdir("/proc/self/fd")) == before + 3
    job.move(JobState.DONE)
    assert len(os.listdir("/proc/self/fd")) == before
    assert job.record.rollout("job.0.0.s0.a1") is not None
    job.record.add_attempt(clean("job.0.0.s1.a1"))
    assert len(list(job.record.attempts("job.0.0"))) == 2
    jobs.close()
    loaded = Jobs(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(list(next(iter(loaded)).record.attempts("job.0.0"))) == 2


@pytest.mark.parametrize("lost", [1, 3, 7, 20])
def test_half_a_frame_is_cut_off_and_writing_goes_on(tmp_path: Path, lost: int):
    record = JobRecord(tmp_path)
    record.add_attempt(clean("job.0.0.s0.a1"))
    record.add_attempt(clean("job.0.0.s1.a1"))
    record.rest()
    path = tmp_path / "records.bin"
    path.write_bytes(path.read_bytes()[:-lost])

    record = JobRecord(tmp_path)
    assert [a.rollout.rollout_id for a in record.attempts("job.0.0")] == ["job.0.0.s0.a1"]
    record.add_attempt(clean("job.0.0.s2.a1"))
    record.rest()
    record = JobRecord(tmp_path)
    assert len(list(record.attempts("job.0.0"))) == 2
    record.rest()


def test_a_damaged_record_is_one_clear_line(tmp_path: Path):
    (tmp_path / "records.bin").write_bytes(b"\x09\x00\x00\x00\x01x")
    with pytest.raises(ConfigError, match="unknown frame kind 9 at byte 0"):
        JobRecord(tmp_path)


def test_conversations_are_kept_as_lines_of_json(tmp_path: Path):
    record = JobRecord(tmp_path)
    record.add_attempt(clean("job.0.0.s0.a1"))
    record.add_attempt(failed("job.0.0.s1.a1"))
    record.rest()
    rows = [json.loads(x) for x in (tmp_path / "conversations.jsonl").read_text().splitlines()]
    assert [(row["status"], row["reward"]) for row in rows] == [
        ("completed", 1.0),
        ("failed_env", None),
    ]
    assert rows[1]["failure"]["error_class"] == "DatabaseError"


def test_groups_of_a_job_have_the_same_ids_in_every_process():
    assert list(SPEC.groups()) == [
        ("job.0.0", "orders/a"),
        ("job.0.1", "orders/a"),
        ("job.1.0", "orders/b"),
        ("job.1.1", "orders/b"),
    ]


def test_jobs_come_back_with_state_and_outbox(tmp_path: Path):
    jobs = Jobs(tmp_path)
    job = jobs.add(SPEC)
    job.put_in_outbox(group_pb2.Group(group_id="job.0.0"))
    job.move(JobState.CANCELLING, "cancelling")
    jobs.close()

    jobs = Jobs(tmp_path)
    (job,) = list(jobs)
    assert job.spec == SPEC
    assert job.state is JobState.CANCELLING
    assert job.stopping.is_set()
    assert job.read_outbox("job.0.0") == group_pb2.Group(group_id="job.0.0")
    job.clear_outbox("job.0.0")
    assert job.read_outbox("job.0.0") is None
    jobs.close()


def test_a_damaged_job_file_is_named(tmp_path: Path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "job.json").write_text('{"spec": {}}')
    with pytest.raises(ConfigError, match=r"job.json is damaged"):
        Jobs(tmp_path)
    (tmp_path / "job" / "job.json").write_text("{")
    with pytest.raises(ConfigError, match=r"job.json is damaged"):
        Jobs(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_id": "../x"},
        {"job_id": ""},
        {"run_id": "a b"},
        {"task_ids": ()},
        {"groups_per_task": 0},
        {"groups_per_task": 10**9},
        {"group_size": 0},
    ],
)
def test_a_job_that_cannot_be_is_refused(wrong: dict[str, object]):
    fields = {name: getattr(SPEC, name) for name in SPEC.__dataclass_fields__}
    with pytest.raises(InvalidArgument):
        JobSpec(**{**fields, **wrong}).check()


def test_a_state_folder_serves_one_gateway(tmp_path: Path):
    lock = lock_folder(tmp_path)
    with pytest.raises(ConfigError, match="in use by another gateway"):
        lock_folder(tmp_path)
    lock.close()
    lock_folder(tmp_path).close()


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file of this process grows beyond `room` bytes; the last write is cut short there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_takes_all_of_an_attempt_or_nothing(tmp_path: Path):
    record = JobRecord(tmp_path)
    record.add_attempt(clean("job.0.0.s0.a1"))
    sizes = {path: path.stat().st_size for path in tmp_path.iterdir()}
    for extra in (1, 40):
        # The first stops within the first frame, the second after it.
        with full_disk(sizes[tmp_path / "records.bin"] + extra):
            with pytest.raises(OSError) as caught:
                record.add_attempt(failed("job.0.0.s1.a1"))
        assert caught.value.filename == str(tmp_path / "records.bin")
        assert {path: path.stat().st_size for path in tmp_path.iterdir()} == sizes
        assert record.rollout("job.0.0.s1.a1") is None
    record.add_attempt(failed("job.0.0.s1.a1"))
    record.rest()
    record = JobRecord(tmp_path)
    found = [attempted.rollout.rollout_id for attempted in record.attempts("job.0.0")]
    assert found == ["job.0.0.s0.a1", "job.0.0.s1.a1"]
    record.rest()
    assert len((tmp_path / "conversations.jsonl").read_text().splitlines()) == 2


def test_a_job_that_the_disk_does_not_take_does_not_exist(tmp_path: Path):
    jobs = Jobs(tmp_path)
    with full_disk(1), pytest.raises(OSError) as caught:
        jobs.add(SPEC)
    assert caught.value.filename == str(tmp_path / "job/job.json")
    assert jobs.find("job") is None
    assert list(Jobs(tmp_path)) == []
    jobs.add(SPEC)
    jobs.close()
    assert [job.spec.job_id for job in Jobs(tmp_path)] == ["job"]
