"""Memory beyond parameters, gradients and optimizer states, at one size of vocabulary.

`python -m learner.bench.memory FOLDER VOCABULARY`: a process of its own, since a peak is a process's.
Parameters, gradients and states are made first; what the pass adds on top of them at its height is
the figure.
"""

import sys
from pathlib import Path

import torch

from learner.bench import case
from learner.engine import TrainerEngine
from learner.update import Work, forward_backward


def peak_extra_bytes(folder: Path, vocabulary: int) -> int:
    """Bytes; resident memory, so Linux only."""
    case.make_model(folder, vocabulary)
    engine = TrainerEngine(case.settings(folder), case.LAYOUT, case.ADAMW, seed=1)
    for parameter in engine.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    engine.step(case.ADAMW.lr)
    for parameter in engine.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    lines = tuple(case.make_lines(vocabulary))
    work = Work(lines=lines, tokens=sum(int(x.sampled.sum()) for x in lines), has_signal=True)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    forward_backward(engine, work, case.ALGORITHM, case.LAYOUT, current_version=0)
    return _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


if __name__ == "__main__":
    print(peak_extra_bytes(Path(sys.argv[1]), int(sys.argv[2])), file=sys.stderr)
