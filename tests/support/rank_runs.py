"""Updates of the exact case on several ranks, each started as a user would."""

import json
import os
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from tests.support import rank_script
from tests.support.learner_process import ROOT

LR = 1e-2
WIDE = 4096
"""A vocabulary whose embeddings ZeRO 3 really shards: DeepSpeed keeps fewer than 100,000 values
whole."""
FREE = 1e9
"""A bound above the case's gradient norms."""


def case(name: str, model: Path, *, tokens: int = 60, **settings) -> dict:
    fixed = {
        "model.path": model,
        "optimizer.lr": LR,
        "optimizer.grad_norm": FREE,
        "batch.micro_batch_tokens": tokens,
        "batch.logits_at_once": 700,
    }
    return {
        "name": name,
        "overrides": [f"{k}={v}" for k, v in {**fixed, **settings}.items()],
    }


def run(
    cases: list[dict], ranks: int, out: Path, devices: str | None = None
) -> dict[str, tuple[dict, dict[str, Tensor]]]:
    """Losses, figures and weights of each case by name; `devices` as CUDA_VISIBLE_DEVICES."""
    out.mkdir(exist_ok=True)
    (out / "cases.json").write_text(json.dumps(cases, default=str))
    arguments = [str(Path(rank_script.__file__)), str(out / "cases.json"), str(out)]
    command = [sys.executable, *arguments]
    if ranks > 1:
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        command = [sys.executable, *launcher, *arguments]
    done = subprocess.run(
        command,
        env={
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **({} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}),
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {
        one["name"]: (
            json.loads((out / f"{one['name']}.json").read_text()),
            load_file(out / f"{one['name']}.safetensors"),
        )
        for one in cases
    }
