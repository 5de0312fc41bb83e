"""One rank of a proof: trains the exact case in several ways; rank 0 writes what came out.

`python rank_script.py CASES.json OUT`, under torchrun or alone. A case: name, overrides of the tiny
configuration, and optionally `from` (load that run's checkpoints) and `save` (write some there).
"""

import json
import sys
from pathlib import Path

from safetensors.torch import save_file

from learner.batch import make_batch
from learner.config import Config, load
from learner.settings import launched
from learner.trainee import LeadingTrainee, Trainee, follow
from tests.support import exact_case
from tests.support.learner_process import CONFIG

UPDATES = 3


def lead(config: Config, case: dict, out: Path) -> None:
    trainee = LeadingTrainee(config)
    if "from" in case:
        assert trainee.load(Path(case["from"]), config.recipe_hash()) is not None
    batch = make_batch(exact_case.groups(), config.algorithm)
    losses = []
    for _ in range(case.get("updates", UPDATES)):
        result = trainee.forward_backward(batch.work, None)
        losses.append([result.loss, trainee.step()])
    if "save" in case:
        facts = {"recipe_hash": config.recipe_hash()}
        trainee.save(Path(case["save"]), facts=facts, keep=2)
    weights = trainee.weights()
    probe = trainee.probe([5, 9, 2, 33, 40, 5])
    trainee.end()
    save_file(weights, out / f"{case['name']}.safetensors")
    figures = {"losses": losses, "probe": probe, "figures": result.figures}
    (out / f"{case['name']}.json").write_text(json.dumps(figures))


def main(cases: Path, out: Path) -> None:
    rank = launched()
    for case in json.loads(cases.read_text()):
        config = load(CONFIG, case["overrides"])
        if rank is None or rank.rank == 0:
            lead(config, case, out)
        else:
            follow(Trainee(config))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
