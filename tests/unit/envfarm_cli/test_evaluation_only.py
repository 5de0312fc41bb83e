"""Nothing of a public benchmark is trained on: not when it is served, not from records."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError
from envfarm.record_frames import FILE, HEAD, ROLLOUT
from envfarm.v1 import group_pb2, task_pb2, trajectory_pb2

from envfarm_cli.evaluation_only import refuse_records, refuse_served
from envfarm_cli.main import main
from envfarm_numbers import benchmarks
from envfarm_numbers.benchmarks import Benchmarks, id_hash
from envfarm_numbers.task_facts import text_hash

ASKED = "How heavy is P-1?"


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Benchmarks(
        {id_hash("depot/one"): "bench"}, {"a" * 64: "bench"}, {text_hash(ASKED): "bench"}
    )
    monkeypatch.setattr(benchmarks, "_known", lambda: known)


def served(task_id: str, task_hash: str, opening: str) -> dict[str, task_pb2.Task]:
    ref = task_pb2.TaskRef(task_id=task_id, task_hash=task_hash)
    return {task_id: task_pb2.Task(ref=ref, opening=opening)}


@pytest.mark.parametrize(
    ("task_id", "task_hash", "opening"),
    [
        ("depot/one", "b" * 64, "Hello"),
        ("shop/other", "a" * 64, "Hello"),
        ("shop/other", "b" * 64, "how heavy is p-1"),
    ],
)
def test_a_served_task_is_refused_by_id_content_and_words(
    task_id: str, task_hash: str, opening: str
):
    with pytest.raises(ConfigError, match=r"training: .* of bench are for evaluation only"):
        refuse_served(served(task_id, task_hash, opening), [task_id], "training")


def test_an_ordinary_task_is_trained_on():
    refuse_served(served("shop/x", "b" * 64, "Hello"), ["shop/x"], "training")


def record(folder: Path, task_id: str, task_hash: str, opening: str) -> None:
    turn = trajectory_pb2.Turn(kind=trajectory_pb2.TURN_KIND_USER, text=opening)
    trajectory = trajectory_pb2.Trajectory(
        task=task_pb2.TaskRef(task_id=task_id, task_hash=task_hash), turns=[turn]
    )
    message = group_pb2.Rollout(rollout_id="r", trajectory=trajectory).SerializeToString()
    folder.mkdir()
    (folder / FILE).write_bytes(HEAD.pack(ROLLOUT, len(message)) + message)


def test_records_are_looked_into_before_supervised_training(tmp_path: Path, capsys):
    record(tmp_path / "good", "shop/x", "b" * 64, "Hello")
    record(tmp_path / "bad", "shop/renamed", "b" * 64, ASKED)
    refuse_records({"data": [{"path": str(tmp_path / "good")}, {"path": "not/there"}]}, "x")
    refuse_records({}, "x")
    config = tmp_path / "sft.toml"
    config.write_text(f'[run]\ndir = "{tmp_path}/run"\n[[data]]\npath = "{tmp_path}/bad"\n')
    assert main(["sft", str(config), "--state-dir", str(tmp_path / "state")]) == 2
    assert "shop/renamed of bench are for evaluation only" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
