"""Reading a gateway's frames."""

from envfarm.v1 import group_pb2

from envfarm_cli.records import HEAD, OUTCOME, ROLLOUT, load_rollout, outcomes, rollouts
from envfarm_cli.state_dir import StateDir


def frame(kind: int, message: bytes) -> bytes:
    return HEAD.pack(kind, len(message)) + message


def test_whole_frames_are_read_and_half_a_frame_is_left(tmp_path):
    folder = tmp_path / "jobs" / "j"
    folder.mkdir(parents=True)
    first = group_pb2.Rollout(rollout_id="j.0.0.s0.a1", episode_id="ep-1").SerializeToString()
    second = group_pb2.Rollout(rollout_id="j.0.0.s1.a1").SerializeToString()
    outcome = group_pb2.GroupOutcome(group_id="j.0.0", published="1-0").SerializeToString()
    data = frame(ROLLOUT, first) + frame(OUTCOME, outcome) + frame(ROLLOUT, second)
    (folder / "records.bin").write_bytes(data[:-1])
    assert [r.rollout_id for r in rollouts(tmp_path)] == ["j.0.0.s0.a1"]
    assert [o.group_id for o in outcomes(tmp_path)] == ["j.0.0"]
    found = load_rollout("ep-1", StateDir(tmp_path / "none"), records=tmp_path)
    assert found.rollout_id == "j.0.0.s0.a1"
