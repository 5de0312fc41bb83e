"""One rank of a proof: trains the exact case in several ways; rank 0 writes what came out.

`python rank_script.py CASES.json OUT`, under torchrun or alone. A case: name, overrides of the tiny
configuration, and optionally `from` (load that run's checkpoints), `save` (write some there) and
`fault`: "no_factor" forgets that DeepSpeed averages over ranks.
"""

import json
import math
import sys
from pathlib import Path

from safetensors.torch import save_file
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from learner import process_group
from learner.batch import make_batch
from learner.config import Config, load
from learner.settings import launched
from learner.trainee import LeadingTrainee, Trainee, follow
from tests.support import exact_case
from tests.support.learner_process import CONFIG

UPDATES = 3


def watch_gradient(trainee: Trainee) -> list[float]:
    """Norms of the reduced gradient in float64, a step each: DeepSpeed's own goes through float32,
    and so do the master weights that ZeRO makes of it."""
    optimizer = trainee.engine._deepspeed.optimizer
    step, norms = optimizer.step, []

    def watched(*arguments, **more):
        own = [g for group in optimizer.averaged_gradients.values() for g in group]
        squares = sum(float(gradient.double().square().sum()) for gradient in own)
        norms.append(math.sqrt(process_group.total(squares)))
        return step(*arguments, **more)

    optimizer.step = watched
    return norms


def plant(trainee: Trainee, case: dict) -> None:
    if case.get("fault") == "no_factor":
        right = trainee.engine.backward
        trainee.engine.backward = lambda loss: right(loss / process_group.ranks())


def lead(config: Config, case: dict, out: Path) -> None:
    trainee = LeadingTrainee(config)
    plant(trainee, case)
    if "from" in case:
        assert trainee.load(Path(case["from"]), config.recipe_hash()) is not None
    watched = watch_gradient(trainee) if config.model.zero_stage in (1, 2) else []
    batch = make_batch(exact_case.groups(), config.algorithm)
    losses = []
    for update in range(case.get("updates", UPDATES)):
        result = trainee.forward_backward(batch.work, None)
        losses.append([result.loss, trainee.step(update)])
    if "save" in case:
        facts = {"recipe_hash": config.recipe_hash()}
        trainee.save(Path(case["save"]), facts=facts, keep=2)
    weights = trainee.weights()
    probe = trainee.probe([5, 9, 2, 33, 40, 5])
    trainee.end()
    save_file(weights, out / f"{case['name']}.safetensors")
    if watched:
        losses = [[loss, norm] for (loss, _), norm in zip(losses, watched, strict=True)]
    figures = {"losses": losses, "probe": probe, "figures": result.figures}
    (out / f"{case['name']}.json").write_text(json.dumps(figures))


def main(cases: Path, out: Path) -> None:
    Qwen3RMSNorm.forward = exact_case.norm_in_its_own_precision
    rank = launched()
    for case in json.loads(cases.read_text()):
        config = load(CONFIG, case["overrides"])
        if rank is None or rank.rank == 0:
            lead(config, case, out)
        else:
            trainee = Trainee(config)
            plant(trainee, case)
            if config.model.zero_stage in (1, 2):
                watch_gradient(trainee)
            follow(trainee)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
