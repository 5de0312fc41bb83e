"""Which recorded rollouts are learned from, and what is said about the others."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError
from envfarm.v1 import trajectory_pb2, verdict_pb2

from learner.sft.config import Data
from learner.sft.conversations import read
from tests.support.recorded import rollouts, write_records


def data(path: Path, rewards: str = "passed", weight: float = 1.0) -> Data:
    return Data(path=path, rewards=rewards, weight=weight)  # pyright: ignore[reportArgumentType]


def test_passed_rollouts_come_with_the_policys_tokens(tmp_path: Path):
    recorded = rollouts([1, 0, 1])
    write_records(tmp_path, recorded)
    corpus = read([data(tmp_path)], max_tokens=100, vocabulary=250)
    kept = corpus.folders[0].conversations
    assert [one.rollout_id for one in kept] == ["g.s0.a1", "g.s2.a1"]
    assert kept[0].token_ids.tolist() == list(recorded[0].trajectory.token_ids)
    assert kept[0].sampled.tolist() == [bool(m) for m in recorded[0].trajectory.loss_mask]
    assert corpus.left_out == {"not_passed": 1}
    assert read([data(tmp_path, "all")], max_tokens=100, vocabulary=250).conversations == 3


def test_every_rollout_that_is_left_out_is_counted_with_its_reason(tmp_path: Path):
    recorded = rollouts([1] * 6)
    recorded[1].trajectory.status = trajectory_pb2.ROLLOUT_STATUS_FAILED_ENV
    recorded[2].verdict.status = verdict_pb2.VERDICT_STATUS_UNGRADABLE
    recorded[3].trajectory.loss_mask = bytes(len(recorded[3].trajectory.loss_mask))
    recorded[4].trajectory.token_ids.extend([1] * 100)
    write_records(tmp_path / "a", recorded)
    write_records(tmp_path / "b", recorded[:1])
    corpus = read([data(tmp_path)], max_tokens=100, vocabulary=250)
    assert corpus.conversations == 2
    assert corpus.left_out == {
        "no_policy_tokens": 1,
        "no_reward": 2,
        "recorded_twice": 1,
        "too_long": 1,
    }


def test_the_hash_speaks_of_the_content_and_not_of_the_place(tmp_path: Path):
    write_records(tmp_path / "a", rollouts([1, 1]))
    write_records(tmp_path / "b", rollouts([1, 1])[::-1])
    write_records(tmp_path / "c", rollouts([1, 1], seed=2))
    a, b, c = (
        read([data(tmp_path / name)], max_tokens=100, vocabulary=250).data_hash for name in "abc"
    )
    assert a == b != c


def test_what_cannot_be_learned_from_is_one_error(tmp_path: Path):
    write_records(tmp_path / "failed", rollouts([0, 0]))
    with pytest.raises(ConfigError, match=r"no rollout is left to learn from \(2 not_passed\)"):
        read([data(tmp_path / "failed")], max_tokens=100, vocabulary=250)
    with pytest.raises(ConfigError, match="is not in the model's vocabulary of 5"):
        read([data(tmp_path / "failed", "all")], max_tokens=100, vocabulary=5)
    other = rollouts([1], name="h")
    other[0].trajectory.renderer_hash = "e" * 64
    write_records(tmp_path / "other", [*other, *rollouts([1])])
    with pytest.raises(ConfigError, match="different tokenizers or chat formats"):
        read([data(tmp_path / "other")], max_tokens=100, vocabulary=250)
    bad = rollouts([1])
    bad[0].trajectory.loss_mask = b"\x01"
    write_records(tmp_path / "bad", bad)
    with pytest.raises(ConfigError, match=r"g\.s0\.a1: its loss mask does not fit"):
        read([data(tmp_path / "bad")], max_tokens=100, vocabulary=250)
