import json
from pathlib import Path

import pytest
from envfarm.errors import ConfigError, EvidenceError

from grader.golden import Golden, GoldenStore, make_golden
from tests.support.shop_world import START, TASK_HASH, after, evidence, golden

DONE = golden(after(notes=[]))
CHECKS = "c" * 64


def load(folder: Path) -> Golden:
    return GoldenStore(folder).load("shop/t", TASK_HASH, CHECKS)


def test_a_written_snapshot_is_read_back(tmp_path: Path):
    path = GoldenStore(tmp_path).write(DONE)
    assert load(tmp_path) == DONE
    assert path.name == f"shop.t.{'a' * 16}.{'c' * 16}.json"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_snapshot_says_what_to_do(tmp_path: Path):
    with pytest.raises(EvidenceError) as caught:
        load(tmp_path)
    assert caught.value.hint == "run ingest"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"content":{}}', "\x00"])
def test_a_torn_snapshot_is_refused(tmp_path: Path, text: str):
    GoldenStore(tmp_path).write(DONE).write_text(text)
    with pytest.raises(EvidenceError, match="unreadable"):
        load(tmp_path)


def test_a_snapshot_that_was_edited_is_refused(tmp_path: Path):
    path = GoldenStore(tmp_path).write(DONE)
    stored = json.loads(path.read_text())
    stored["content"]["changes"] = []
    path.write_text(json.dumps(stored))
    with pytest.raises(EvidenceError, match="its own hash"):
        load(tmp_path)


def test_a_snapshot_of_other_content_under_a_matching_name_is_refused(tmp_path: Path):
    other = DONE.model_copy(update={"checks_hash": "c" * 63 + "d"})
    GoldenStore(tmp_path).write(other)
    with pytest.raises(EvidenceError, match="other content"):
        load(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        GoldenStore(blocker / "golden").write(DONE)


def test_an_episode_without_calls_that_changed_something_makes_no_snapshot():
    with pytest.raises(EvidenceError, match="without calls changed"):
        make_golden(CHECKS, evidence(after(notes=[])), evidence(START))


def test_two_different_starting_states_make_no_snapshot():
    other = after(notes=[])
    with pytest.raises(EvidenceError, match="different states"):
        make_golden(CHECKS, evidence(other, initial=other), evidence(START))
