"""The learner on one GPU: the CPU's losses, the plan's memory. `make gpu-test`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.support import exact_case, gpu_memory_script
from tests.support.learner_process import ROOT
from tests.support.rank_runs import WIDE, case, run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.timeout(500),
]

FRUGAL = {
    "model.gradient_checkpointing": "true",
    "model.offload_activations": "true",
    "model.mlp_tiles": 3,
    "batch.logits_at_once": 7 * WIDE,
}


@pytest.mark.parametrize("offload", ["none", "optimizer", "all"])
def test_updates_on_the_gpu_are_those_of_the_cpu(offload: str, tmp_path: Path):
    model = exact_case.save(exact_case.qwen3(vocabulary=WIDE), tmp_path / "model")
    settings = {"model.zero_stage": 3, "model.offload": offload, **FRUGAL}
    plain = run(
        [case("plain", model, **{"batch.logits_at_once": 7 * WIDE})],
        1,
        tmp_path / "cpu",
        devices="",
    )
    found = run([case("frugal", model, **settings)], 1, tmp_path / "gpu")
    steps = zip(found["frugal"][0]["losses"], plain["plain"][0]["losses"], strict=True)
    for ours, theirs in steps:
        assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("offload", ["none", "optimizer"])
def test_the_device_holds_what_the_plan_says(offload: str, tmp_path: Path):
    """0.6 B parameters and 16,384 positions; without the margin for the context."""
    done = subprocess.run(
        [sys.executable, gpu_memory_script.__file__, str(tmp_path), offload],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    assert figures["peak"] <= figures["planned"] * 1.1
    assert figures["peak"] >= figures["planned"] * 0.5
