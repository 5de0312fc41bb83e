"""`python -m learner.sft` as a process: it learns, resumes bit for bit, and ends in one line."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from learner.served_folder import weights_hash
from tests.support.learner_process import ROOT
from tests.support.polling import wait_until
from tests.support.recorded import rollouts, write_records

CONFIG = ROOT / "learner/configs/sft-tiny.toml"
STEPS = 40


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    write_records(folder / "jobs/a", rollouts([1, 0, 1, 1]))
    write_records(folder / "jobs/b", rollouts([0, 1, 1, 1], name="h", seed=2))
    return folder


def start(model: Path, records: Path, run: Path, *more: str) -> subprocess.Popen[str]:
    settings = [
        f"model.path={model}",
        f"run.dir={run}",
        f"run.steps={STEPS}",
        "run.report_every=4",
        "batch.conversations=4",
        "batch.micro_batch_tokens=80",
        f'data=[{{path="{records}", rewards="passed", weight=1.0}}]',
        *more,
    ]
    command = [sys.executable, "-m", "learner.sft", str(CONFIG)]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str], status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == status, err[-3000:]
    return out, err


def losses(run: Path) -> list[tuple[int, float, float]]:
    path = run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(line["step"], line["loss"], line["grad_norm"]) for line in lines]


@pytest.fixture(scope="module")
def whole(tiny_model: Path, records: Path, tmp_path_factory: pytest.TempPathFactory):
    run = tmp_path_factory.mktemp("whole")
    out, err = ended(start(tiny_model, records, run))
    return run, out, err


def test_it_learns_and_writes_a_model_that_loads_with_a_summary(whole, tiny_model: Path):
    run, out, err = whole
    assert out.strip() == str(run / "summary.json")
    summary = json.loads((run / "summary.json").read_text())
    assert summary["conversations"] == 6
    assert summary["left_out"] == {"not_passed": 2}
    assert summary["rewards"] == {"1": 6}
    assert summary["steps"] == STEPS
    assert summary["epochs"] == pytest.approx(STEPS * 4 / 6)
    assert summary["padding_share"] == 0.0
    assert summary["last_loss"] < summary["first_loss"] - 0.5
    assert summary["weights_hash"] == weights_hash(run / "model")
    assert summary["weights_hash"] != summary["origin_weights_hash"] == weights_hash(tiny_model)
    assert f"step {STEPS}/{STEPS}  loss" in err
    AutoModelForCausalLM.from_pretrained(run / "model")
    AutoTokenizer.from_pretrained(run / "model")


def test_stopped_and_started_again_it_ends_in_the_same_bits(
    whole, tiny_model: Path, records: Path, tmp_path: Path
):
    calm, _, _ = whole
    first = start(tiny_model, records, tmp_path)
    wait_until(lambda: len(losses(tmp_path)) >= 3, "three steps", 120)
    first.send_signal(signal.SIGTERM)
    out, _ = ended(first)
    assert out == ""
    assert 3 <= len(losses(tmp_path)) < STEPS
    assert not (tmp_path / "summary.json").exists()
    ended(start(tiny_model, records, tmp_path))
    assert losses(tmp_path) == losses(calm)
    assert weights_hash(tmp_path / "model") == weights_hash(calm / "model")


def test_a_kill_loses_nothing_that_a_checkpoint_holds(
    whole, tiny_model: Path, records: Path, tmp_path: Path
):
    calm, _, _ = whole
    first = start(tiny_model, records, tmp_path, "run.checkpoint_every=3")
    wait_until(lambda: (tmp_path / "checkpoints/latest").exists(), "a checkpoint", 120)
    first.kill()
    first.communicate()
    assert not (tmp_path / "summary.json").exists()
    ended(start(tiny_model, records, tmp_path, "run.checkpoint_every=3"))
    assert losses(tmp_path) == losses(calm)
    assert weights_hash(tmp_path / "model") == weights_hash(calm / "model")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("run.epochs=1.0", "give either steps or epochs"),
        ("data=[]", "data: List should have at least 1 item"),
        ('data=[{path="/no/such", rewards="all", weight=1.0}]', "/no/such: no records.bin"),
        ("batch.lyout=packed", "batch.lyout: Extra inputs"),
        ("model.path=/no/model", "model.path: cannot load a model"),
    ],
)
def test_a_mistake_is_one_line(setting: str, words: str, tiny_model, records, tmp_path: Path):
    out, err = ended(start(tiny_model, records, tmp_path, setting), 1)
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ConfigError: ")
    assert words in last


def test_another_recipe_or_other_data_do_not_go_on_from_a_checkpoint(
    whole, tiny_model: Path, records: Path
):
    run, _, _ = whole
    _, err = ended(start(tiny_model, records, run, "optimizer.lr=2e-3"), 1)
    assert "was made by another recipe" in err.splitlines()[-1]
