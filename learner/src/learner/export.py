"""A checkpoint as a folder that engines load: `python -m learner export`.

The weights come from DeepSpeed's files, which are pickles: they are read only after every digest has
been verified. What is not weights comes from the initial model.
"""

import json
from pathlib import Path
from typing import Any

import torch
from envfarm.errors import CheckpointError, ConfigError
from torch import Tensor

from learner import checkpoint_folder, served_folder

PREFIX = "language_model."
"""The model's place within what DeepSpeed trains."""
STATE = "mp_rank_00_model_states.pt"
RUN_CONFIG = "config.json"


def export(run_dir: Path, out: Path, name: str | None = None) -> dict[str, Any]:
    """Write `out` from the newest checkpoint of a run, or the one called `name`.

    Returns path, checkpoint, version and weights hash. Raises CheckpointError for a checkpoint that
    is damaged or whose weights are not those that its version was published with.
    """
    folder = run_dir / "checkpoints"
    path = checkpoint_folder.newest(folder) if name is None else folder / name
    if path is None or not path.is_dir():
        raise CheckpointError(
            f"{folder}: no checkpoint{'' if name is None else f' {name}'} in it",
            hint="name a run's folder; its checkpoints are "
            + (", ".join(p.name for p in checkpoint_folder.all_of(folder)) or "none"),
        )
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty", hint="name a new folder")
    manifest = checkpoint_folder.verify(path)
    origin = _origin(run_dir)
    digest = served_folder.write(out, _weights(path, origin), origin)
    progress = manifest.get("progress", {})
    version = progress.get("version")
    published = progress.get("policies", {}).get(str(version))
    if published not in (None, digest):
        raise CheckpointError(
            f"{path}: its weights have the hash {digest[:12]}…, but version {version} was published "
            f"as {published[:12]}…"
        )
    return {
        "path": str(out.resolve()),
        "checkpoint": path.name,
        "version": version,
        "weights_hash": digest,
    }


def _origin(run_dir: Path) -> Path:
    path = run_dir / RUN_CONFIG
    try:
        return Path(json.loads(path.read_text())["config"]["model"]["path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}: missing or unreadable", hint="name a learner's run folder"
        ) from error


def _weights(path: Path, origin: Path) -> dict[str, Tensor]:
    """Whole, in the dtype in which they were trained."""
    state = path / "state"
    if any(state.glob("zero_pp_rank_*_mp_rank_00_model_states.pt")):
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        whole: Any = get_fp32_state_dict_from_zero_checkpoint(str(path), "state")
    else:
        whole = torch.load(state / STATE, map_location="cpu", weights_only=False)["module"]
    tied = json.loads((origin / "config.json").read_text()).get("tie_word_embeddings", False)
    return {
        name.removeprefix(PREFIX): tensor.contiguous().clone()
        for name, tensor in whole.items()
        if not (tied and name == f"{PREFIX}lm_head.weight")
    }
