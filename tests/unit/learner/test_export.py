"""A checkpoint as a served folder: the published weights, or refused by name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from envfarm.errors import CheckpointError, ConfigError
from safetensors.torch import load_file

from learner import checkpoint_folder
from learner.engine import TrainerEngine
from learner.export import export
from learner.model_config import Layout, Model, Optimizer
from learner.served_folder import weights_hash, write
from tests.support import exact_case


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with one checkpoint of version 4, and its published weights."""
    folder = tmp_path_factory.mktemp("run")
    origin = exact_case.save(exact_case.qwen3(), folder / "origin")
    model = Model(
        path=origin,
        dtype="float32",
        zero_stage=1,
        offload="none",
        gradient_checkpointing=False,
        offload_activations=False,
        sequence_parallel=1,
        mlp_tiles=1,
        max_tokens=100,
    )
    layout = Layout(layout="packed", micro_batch_tokens=60, logits_at_once=1000)
    adamw = Optimizer(
        kind="adamw", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, grad_norm=1.0
    )
    engine = TrainerEngine(model, layout, adamw, seed=1)
    with torch.no_grad():
        next(engine.model.parameters()).add_(0.5)
    published = write(folder / "weights/4", engine.weights(), origin)
    checkpoint_folder.save(
        folder / "checkpoints",
        engine,
        facts={"recipe_hash": "r", "progress": {"version": 4, "policies": {"4": published}}},
        keep=1,
    )
    (folder / "config.json").write_text(json.dumps({"config": {"model": {"path": str(origin)}}}))
    return folder


def test_the_newest_checkpoint_gives_the_published_weights(run: Path, tmp_path: Path):
    command = [sys.executable, "-m", "learner", "export", "--run", run, "--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "path": str(tmp_path / "out"),
        "checkpoint": "checkpoint-000001",
        "version": 4,
        "weights_hash": weights_hash(run / "weights/4"),
    }
    ours, theirs = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "out", run / "weights/4")
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (tmp_path / "out/config.json").exists()


def test_what_cannot_be_exported_is_refused_by_name(run: Path, tmp_path: Path):
    with pytest.raises(CheckpointError, match="no checkpoint checkpoint-000009 in it"):
        export(run, tmp_path / "out", "checkpoint-000009")
    with pytest.raises(CheckpointError, match="no checkpoint in it"):
        export(tmp_path, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        export(run, tmp_path / "full")


def test_a_damaged_checkpoint_is_not_read(run: Path, tmp_path: Path):
    shard = run / "checkpoints/checkpoint-000001/state/mp_rank_00_model_states.pt"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    try:
        with pytest.raises(CheckpointError, match=r"mp_rank_00_model_states\.pt: its digest"):
            export(run, tmp_path / "out")
    finally:
        shard.write_bytes(whole)
    assert not (tmp_path / "out").exists()
