"""DeepSpeed's C++ ops are those that set-up built: nothing is compiled when one is used."""

import os
import subprocess
import sys
from pathlib import Path

BUILT = Path(sys.prefix) / "torch_extensions"

STEP_BOTH = """
import torch
from learner import settings
settings.find_built_ops()
import deepspeed
from deepspeed.ops.adam import DeepSpeedCPUAdam

torch.manual_seed(7)
start = torch.randn(4096)
ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
recipe = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
steps = [(ours, torch.optim.AdamW([ours], **recipe)),
         (theirs, DeepSpeedCPUAdam([theirs], adamw_mode=True, fp32_optimizer_states=True, **recipe))]
for number in range(5):
    gradient = torch.randn(4096)
    for parameter, optimizer in steps:
        parameter.grad = gradient.clone()
        optimizer.step()
print("moved", float((ours - start).abs().max().detach()))
print("gap", float((ours - theirs).abs().max().detach()))
"""


def stamps() -> dict[str, int]:
    return {str(path.relative_to(BUILT)): path.stat().st_mtime_ns for path in BUILT.glob("*/*.so")}


def test_the_built_optimizer_steps_as_torch_does_and_is_not_built_again(tmp_path: Path):
    before = stamps()
    assert set(before) == {"cpu_adam/cpu_adam.so", "deepspeed_shm_comm/deepspeed_shm_comm.so"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DS_ACCELERATOR": "cpu"}
    answer = subprocess.run(
        [sys.executable, "-c", STEP_BOTH],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    figures = dict(
        line.split() for line in answer.stdout.splitlines() if line.startswith(("moved", "gap"))
    )
    assert float(figures["moved"]) > 1e-3
    assert float(figures["gap"]) < 1e-6
    assert stamps() == before
    assert not (tmp_path / ".cache" / "torch_extensions").exists()
