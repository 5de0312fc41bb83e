"""Before a run of several ranks trains anything: do they agree, and is there room?

Every rank says what it has, and every rank judges the same list, so that all of them end with the
same sentence, which names the rank and its machine.
"""

import hashlib
import importlib.metadata
import json
import platform
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from envfarm.errors import ConfigError

from learner import process_group
from learner.config import Config
from learner.plan.learner_memory import BYTES

PACKAGES = ("torch", "deepspeed", "transformers")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Of one rank."""

    machine: str
    versions: dict[str, str]
    recipe: str
    """The recipe's hash."""
    model: str
    """Digest over the model folder's names and sizes, and over its config.json."""
    weight_bytes: int
    sees_run_dir: bool
    """It found in run.dir what rank 0 put there."""
    free_bytes: int
    """Of the disk of run.dir."""
    devices: int
    """Accelerators that it sees; 0 without any."""


def check(config: Config) -> list[Facts]:
    """Every rank calls it, after it has joined. ConfigError with everything that is wrong."""
    if process_group.ranks() == 1:
        return []
    mark = config.run.dir / f".preflight-{secrets.token_hex(8)}"
    leads = process_group.rank() == 0
    if leads:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    try:
        name = process_group.said(mark.name)[0]
        own = _facts(config, mark.with_name(name))
        found = [Facts(**json.loads(text)) for text in process_group.said(json.dumps(asdict(own)))]
    finally:
        if leads:
            mark.unlink(missing_ok=True)
    wrong = list(problems(found, config))
    if wrong:
        raise ConfigError("preflight: " + "; ".join(wrong))
    return found


def problems(found: list[Facts], config: Config) -> Iterator[str]:
    """What keeps these ranks from training together, a sentence each."""
    first = found[0]
    for rank, one in enumerate(found):
        who = f"rank {rank} on {one.machine}"
        for name, version in one.versions.items():
            if version != first.versions[name]:
                yield f"{who} has {name} {version}, rank 0 has {first.versions[name]}"
        if one.recipe != first.recipe:
            yield f"{who} has another recipe ({one.recipe[:12]}…, rank 0 {first.recipe[:12]}…)"
        if one.model != first.model:
            yield f"{who} has another model at {config.model.path} than rank 0"
        if not one.sees_run_dir:
            yield f"{who} does not see rank 0's run.dir {config.run.dir}: it must be shared"
        if (one.devices > 0) != (first.devices > 0):
            yield f"{who} sees {one.devices} accelerators, rank 0 {first.devices}"
    needed = checkpoint_bytes(config, first.weight_bytes)
    if first.free_bytes < needed:
        yield (
            f"run.dir has {first.free_bytes / 1e9:.1f} GB free and one checkpoint takes "
            f"{needed / 1e9:.1f}"
        )


def checkpoint_bytes(config: Config, weight_bytes: int) -> int:
    """Of one checkpoint: weights and two moments, in bfloat16 master weights, too."""
    size = BYTES[config.model.dtype]
    values = weight_bytes // size
    return values * (size + (12 if config.model.dtype == "bfloat16" else 2 * size))


def _facts(config: Config, mark: Path) -> Facts:
    folder = config.model.path
    digest, weights = hashlib.sha256(), 0
    for path in sorted(folder.glob("*")):
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        weights += size if path.suffix == ".safetensors" else 0
    known = folder / "config.json"
    digest.update(known.read_bytes() if known.exists() else b"")
    there = mark.exists()
    return Facts(
        machine=platform.node(),
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
        recipe=config.recipe_hash(),
        model=digest.hexdigest(),
        weight_bytes=weights,
        sees_run_dir=there,
        free_bytes=shutil.disk_usage(mark.parent).free if there else 0,
        devices=torch.cuda.device_count(),
    )
