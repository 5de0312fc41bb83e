"""TRL's GRPO trainer beside the learner: speed on the same tokens, and the same loss and gradient.

TRL lives in an interpreter of its own, since it is no part of envfarm; see `trl_loss.py`.
"""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import torch
from envfarm.errors import LearnerError
from safetensors.torch import load_file

from learner import settings
from learner.bench import case
from learner.engine import TrainerEngine
from learner.update import Work, forward_backward

SCRIPT = Path(__file__).with_name("trl_loss.py")


def measure(python: Path, model: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """`trl_loss_gap` is |ours − TRL's|, `trl_gradient_gap` ‖ours − TRL's‖ / ‖TRL's‖ over all
    parameters, both in float32. LearnerError when the interpreter cannot run TRL."""
    lines = case.make_lines()
    theirs = _theirs(python, model, folder, rounds)
    work = Work(
        lines=tuple(lines), tokens=sum(int(x.sampled.sum()) for x in lines), has_signal=True
    )
    engine = TrainerEngine(case.settings(model), case.LAYOUT, case.ADAMW, seed=1)
    loss = forward_backward(engine, work, case.ALGORITHM, case.LAYOUT, current_version=0).loss
    gradients = load_file(folder / "gradients.safetensors")
    apart = whole = 0.0
    for name, parameter in engine.model.named_parameters():
        wanted = gradients.pop(name).double()
        found = torch.zeros_like(wanted) if parameter.grad is None else parameter.grad.double()
        apart += float((found - wanted).square().sum())
        whole += float(wanted.square().sum())
    if gradients:
        raise LearnerError(f"TRL has parameters that the learner has not: {sorted(gradients)}")
    return {
        "trl_version": theirs["version"],
        "trl_tokens_per_s": sum(map(len, lines)) / statistics.median(theirs["seconds"]),
        "trl_loss_gap": abs(loss - theirs["loss"]),
        "trl_gradient_gap": (apart / whole) ** 0.5,
    }


def _theirs(python: Path, model: Path, folder: Path, rounds: int) -> dict[str, Any]:
    lines = [
        {
            "ids": line.token_ids.tolist(),
            "begin": int(line.sampled.argmax()),
            "advantage": line.advantage,
            "old": line.old_logprobs[line.sampled].tolist(),
        }
        for line in case.make_lines()
    ]
    (folder / "lines.json").write_text(json.dumps(lines))
    # -P: beside the script lie files of ours whose names packages may have, too.
    command = [python, "-P", SCRIPT, model, folder / "lines.json", str(rounds)]
    try:
        done = subprocess.run(
            command,
            env=settings.environment_of_a_child(),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise LearnerError(f"--trl-python {python}: {error.strerror}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LearnerError(f"--trl-python {python}: TRL did not run: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])
