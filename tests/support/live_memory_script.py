"""`live_memory_script.py FOLDER OFFLOAD`: one update at ZeRO 3 in bfloat16; prints the bytes of every live
tensor afterwards, the parameters, and what the plan says is kept."""

import gc
import json
import sys
from pathlib import Path

import torch

from learner.bench import case
from learner.engine import TrainerEngine
from learner.plan import shape as shapes
from learner.plan.cluster import Cluster
from learner.plan.learner_memory import learner_memory
from learner.update import Work, forward_backward

KEPT = ("weights", "gradients", "optimizer", "bucket")
VOCABULARY = 4096


def live_bytes() -> int:
    """Of all tensors, each storage once."""
    gc.collect()
    found = [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]
    return sum(
        {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in found}.values()
    )


def main(folder: Path, offload: str) -> None:
    case.make_model(folder / "model", VOCABULARY)
    model = case.settings(folder / "model").model_copy(
        update={"zero_stage": 3, "dtype": "bfloat16", "offload": offload}
    )
    lines = tuple(case.make_lines(VOCABULARY)[:2])
    engine = TrainerEngine(model, case.LAYOUT, case.ADAMW, seed=1)
    work = Work(lines=lines, tokens=100, has_signal=True)
    forward_backward(engine, work, case.ALGORITHM, case.LAYOUT, current_version=None)
    engine.step(case.ADAMW.lr)
    shape = shapes.read(folder / "model")
    planned = learner_memory(
        model, case.LAYOUT, shape, Cluster.model_construct(gpus_per_node=1), ranks=1
    )
    kept = sum(planned.gpu.get(name, 0) + planned.host.get(name, 0) for name in KEPT)
    figures = {"live": live_bytes(), "parameters": shape.parameters, "planned": kept}
    print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
