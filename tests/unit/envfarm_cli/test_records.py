"""Reading what a gateway recorded, also while it is being written."""

import json
from pathlib import Path

import pytest
from envfarm.v1 import group_pb2

from envfarm_cli.records import HEAD, OUTCOME, attempts, load_attempt, outcomes
from envfarm_cli.state_dir import StateDir

OTHER_KIND = 1


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "jobs" / "j"
    made.mkdir(parents=True)
    return made


def frame(kind: int, message: bytes) -> bytes:
    return HEAD.pack(kind, len(message)) + message


def test_outcomes_are_read_and_half_a_frame_is_left(tmp_path, folder):
    first = group_pb2.GroupOutcome(group_id="j.0.0", published="1-0").SerializeToString()
    second = group_pb2.GroupOutcome(group_id="j.0.1").SerializeToString()
    data = frame(OTHER_KIND, b"xyz") + frame(OUTCOME, first) + frame(OUTCOME, second)
    (folder / "records.bin").write_bytes(data[:-1])
    assert [outcome.group_id for outcome in outcomes(tmp_path)] == ["j.0.0"]


def test_an_attempt_is_found_by_either_id_and_half_a_line_is_left(tmp_path, folder):
    lines = [
        json.dumps({"rollout_id": "j.0.0.s0.a1", "episode_id": "ep-1"}),
        json.dumps({"rollout_id": "j.0.0.s1.a1", "episode_id": "ep-2"}),
        '{"rollout_id": "j.0.0.s2',
    ]
    (folder / "conversations.jsonl").write_text("\n".join(lines))
    assert len(list(attempts(tmp_path))) == 2
    nowhere = StateDir(tmp_path / "none")
    for wanted in ("j.0.0.s1.a1", "ep-2"):
        assert load_attempt(wanted, nowhere, records=tmp_path)["episode_id"] == "ep-2"
