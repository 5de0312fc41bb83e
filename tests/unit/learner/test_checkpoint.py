"""A checkpoint is whole and verified, or refused by name."""

import json
import shutil
from pathlib import Path

import pytest
from envfarm.errors import CheckpointError

from learner import checkpoint, checkpoint_folder
from learner.checkpoint import Progress
from learner.files import discard_folder
from learner.ledger import Ledger, Record


class FileEngine:
    """Stands for the trainer engine: one file of state."""

    state = b"weights"

    def save(self, folder: Path) -> None:
        (folder / "state").mkdir()
        (folder / "state" / "model.bin").write_bytes(self.state)

    def load(self, folder: Path, *, universal: bool = False) -> None:
        self.state = (folder / "state" / "model.bin").read_bytes()


class FileTrainee:
    """One rank with such an engine."""

    def __init__(self, engine: FileEngine):
        self.engine = engine

    def save(self, folder: Path, **more) -> Path:
        return checkpoint_folder.save(folder, self.engine, **more)

    def load(self, folder: Path, recipe_hash: str):
        return checkpoint_folder.load(folder, self.engine, recipe_hash=recipe_hash)


def record(name: str, fate: str = "trained") -> Record:
    return Record(
        entry_id=f"{name}-0", group_id=name, fate=fate, reason="", update=1, store_key=name
    )


def save(folder: Path, update: int, engine: FileEngine | None = None, keep: int = 2) -> Path:
    ledger = Ledger([record("a"), record("b", "stale")])
    progress = Progress(update=update, version=update, policies={0: "h0", update: "h"})
    return checkpoint.save(
        folder,
        FileTrainee(engine or FileEngine()),  # pyright: ignore
        progress,
        ledger,
        recipe_hash="r",
        epoch=1,
        keep=keep,
    )


def load(folder: Path, engine: FileEngine | None = None, recipe: str = "r"):
    return checkpoint.load(folder, FileTrainee(engine or FileEngine()), recipe_hash=recipe)  # pyright: ignore


def test_nothing_saved_is_a_fresh_start(tmp_path: Path):
    assert load(tmp_path / "checkpoints") is None


def test_the_newest_comes_back_whole(tmp_path: Path):
    engine = FileEngine()
    save(tmp_path, 1)
    engine.state = b"later weights"
    path = save(tmp_path, 2, engine)
    fresh = FileEngine()
    found = load(tmp_path, fresh)
    assert found is not None
    progress, ledger = found
    assert progress == Progress(update=2, version=2, policies={0: "h0", 2: "h"})
    assert fresh.state == b"later weights"
    assert ledger.settled("a-0") == record("a")
    assert ledger.has_ended("b")
    assert ledger.waiting() == []
    assert (tmp_path / "latest").read_text() == path.name


def test_only_so_many_are_kept(tmp_path: Path):
    names = [save(tmp_path, update).name for update in range(1, 5)]
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == names[-2:]


@pytest.mark.parametrize("name", ["state/model.bin", "groups.jsonl", "rng-0.bin"])
def test_a_truncated_file_is_named(tmp_path: Path, name: str):
    path = save(tmp_path, 1) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=rf"{name}: its digest differs"):
        load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path):
    (save(tmp_path, 1) / "state/model.bin").unlink()
    with pytest.raises(CheckpointError, match=r"state/model\.bin: missing"):
        load(tmp_path)


def test_a_file_that_the_manifest_does_not_know_is_named(tmp_path: Path):
    (save(tmp_path, 1) / "state/extra.bin").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"state/extra\.bin: not in the manifest"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"files": {}',
        '{"format": 2, "ranks": 1, "recipe_hash": "r", "files": [1]}',
        '{"format": 2, "files": {}}',
    ],
)
def test_an_unreadable_manifest_is_named(tmp_path: Path, text: str):
    (save(tmp_path, 1) / "manifest.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json: missing or unreadable"):
        load(tmp_path)


def test_a_manifest_with_a_number_where_a_name_belongs_is_named(tmp_path: Path):
    path = save(tmp_path, 1) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "recipe_hash": 7}))
    with pytest.raises(CheckpointError, match=r"manifest\.json: ranks or recipe_hash is not one"):
        load(tmp_path)


def test_a_progress_that_this_learner_does_not_know_is_named(tmp_path: Path):
    path = save(tmp_path, 1) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "progress": {"steps": 1}}))
    with pytest.raises(CheckpointError, match=r"manifest\.json: its progress cannot be read"):
        load(tmp_path)


def test_a_copy_that_somebody_made_beside_them_is_no_checkpoint(tmp_path: Path):
    first = save(tmp_path, 1)
    for name in ("checkpoint-000001.bak", "checkpoint-000009 (copy)", "checkpoint-mine"):
        shutil.copytree(first, tmp_path / name)
    found = load(tmp_path)
    assert found is not None
    assert found[0].update == 1
    assert save(tmp_path, 2, keep=1).name == "checkpoint-000002"
    assert (tmp_path / "checkpoint-000001.bak").exists()


def test_a_pointer_of_torn_bytes_is_refused_and_not_a_traceback(tmp_path: Path):
    save(tmp_path, 1)
    (tmp_path / "latest").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match="which is missing"):
        load(tmp_path)


def test_what_a_killed_process_left_is_gone_after_the_next_start(tmp_path: Path):
    kept = save(tmp_path, 1)
    for ending in ("partial", "discarded", "universal"):
        (tmp_path / f".checkpoint-000000.{ending}" / "state").mkdir(parents=True)
    load(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [kept.name, "latest"]


def test_another_initial_model_is_refused_before_anything_is_loaded(tmp_path: Path):
    engine = FileEngine()
    facts = {"recipe_hash": "r", "initial_model": "a" * 64}
    checkpoint_folder.save(tmp_path, engine, facts=facts, keep=1)
    engine.state = b"untouched"
    with pytest.raises(CheckpointError, match=r"began with another model \(aaaaaaaaaaaa…\)"):
        checkpoint_folder.load(tmp_path, engine, recipe_hash="r", initial_model="b" * 64)
    assert engine.state == b"untouched"
    checkpoint_folder.load(tmp_path, engine, recipe_hash="r", initial_model="a" * 64)
    assert engine.state == b"weights"


def test_nothing_is_loaded_before_all_is_verified(tmp_path: Path):
    path = save(tmp_path, 1) / "state/model.bin"
    path.write_bytes(b"evil")
    engine = FileEngine()
    with pytest.raises(CheckpointError):
        load(tmp_path, engine)
    assert engine.state == b"weights"


def test_a_checkpoint_that_latest_names_and_is_gone_is_refused(tmp_path: Path):
    save(tmp_path, 1)
    discard_folder(save(tmp_path, 2))
    with pytest.raises(CheckpointError, match="latest names checkpoint-000002, which is missing"):
        load(tmp_path)


def test_a_half_written_folder_is_ignored_and_replaced(tmp_path: Path):
    save(tmp_path, 1)
    partial = tmp_path / ".checkpoint-000002.partial"
    partial.mkdir()
    (partial / "junk").write_bytes(b"x")
    found = load(tmp_path)
    assert found is not None
    assert found[0].update == 1
    assert not (save(tmp_path, 2) / "junk").exists()


def test_another_recipe_is_refused(tmp_path: Path):
    save(tmp_path, 1)
    with pytest.raises(CheckpointError, match="another recipe"):
        load(tmp_path, recipe="other")


def test_the_ledger_becomes_durable_in_steps():
    ledger = Ledger([])
    ledger.add(record("a"))
    assert not Ledger([]).has_ended("a")
    assert [r.group_id for r in ledger.waiting()] == ["a"]
    assert [r.group_id for r in ledger.mark_durable()] == ["a"]
    ledger.add(record("b", "bad"))
    assert [r.group_id for r in ledger.waiting()] == ["b"]
    assert not ledger.has_ended("b"), "a bad group may be published again"
    assert Ledger.parse(ledger.dump()).dump() == ledger.dump()
    assert json.loads(ledger.dump().splitlines()[1])["fate"] == "bad"
