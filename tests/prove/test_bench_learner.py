"""The learner's figures, held to their aims, and its loss and gradient beside TRL's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import trl_interpreter
from tests.support.envfarm_command import ROOT
from tests.support.proof import write_proof

RATIO = 0.9
WASTE = 0.03
MEMORY_GROWTH = 1.3
FLOAT32 = 1e-4
"""Two programs that sum in different orders agree to this in float32."""


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_the_learner_keeps_its_aims_and_its_gradient_is_that_of_trl(tmp_path: Path):
    python = trl_interpreter.make(tmp_path / "trl")
    command = [sys.executable, "-m", "envfarm_cli", "bench", "learner", "--rounds", "5", "--json"]
    if python is not None:
        command += ["--trl-python", str(python)]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path / "state")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    write_proof("bench-learner", figures)
    assert figures["parameters"] >= 20_000_000
    assert figures["tokens"] >= 8_192
    assert figures["padding_waste"] <= WASTE
    assert figures["resume_exact"]
    growth = figures["peak_extra_bytes_vocab_128k"] / figures["peak_extra_bytes_vocab_8k"]
    assert growth <= MEMORY_GROWTH
    assert figures["ratio"] >= RATIO
    if python is None:
        pytest.skip("TRL could not be installed here: its figures are missing from the proof")
    assert figures["trl_loss_gap"] <= FLOAT32
    assert figures["trl_gradient_gap"] <= FLOAT32
    assert figures["learner_tokens_per_s"] >= figures["trl_tokens_per_s"]
