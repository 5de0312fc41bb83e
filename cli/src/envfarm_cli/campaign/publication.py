"""Putting starting weights into service as version 0, through the learner's own door."""

from pathlib import Path

from envfarm.v1 import policy_pb2

from envfarm_cli.campaign.farm import Farm
from envfarm_cli.failure import Failure
from envfarm_cli.learner_config import Overrides, merge


def serve_weights(
    farm: Farm, run_id: str, model: Path, folder: Path, recipe: Path, overrides: Overrides
) -> policy_pb2.PolicyVersion:
    """Version 0 of `run_id`, from `model`; in service when this returns.

    A learner of zero updates exports the weights, hashes them and has the engines prove them, just
    as in training. A run whose version 0 is in service is left alone.
    """
    now = farm.in_service()
    if now is not None and (now.run_id, now.number) == (run_id, 0):
        return now
    if farm.engine == "scripted":
        farm.announce_constant(run_id, model)
    else:
        zero: Overrides = {
            "run": {"id": run_id, "dir": str(folder / "learner"), "updates": 0},
            "model": {"path": str(model)},
        }
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "serve.toml"
        farm.wait_for(
            farm.start_learner(config, recipe, merge(overrides, zero), folder / "serve.log")
        )
    now = farm.in_service()
    if now is None or now.run_id != run_id:
        raise Failure(f"version 0 of {run_id} is not in service", hint=f"read {folder}/serve.log")
    return now
