"""Checkpoints: one folder each, whole or absent, verified before anything of it is loaded.

    <run>/checkpoints/checkpoint-000005/
        state/…          DeepSpeed's checkpoint: model and optimizer
        groups.jsonl     the ledger, with the stream entries it settles
        rng.bin          torch's generator state
        manifest.json    progress, recipe hash, SHA-256 of every other file
    <run>/checkpoints/latest    name of the newest, for people and tools

Renaming the folder into place is the commit; `latest` follows and is put right at the next load.
DeepSpeed's files are pickles: they are read only after their digests match the manifest.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from envfarm.errors import CheckpointError

from learner.engine import TrainerEngine
from learner.files import commit_folder, digests, discard_folder, fresh_folder, write_durably
from learner.ledger import Ledger

FORMAT = 1
MANIFEST = "manifest.json"
LEDGER = "groups.jsonl"
RNG = "rng.bin"
LATEST = "latest"
PREFIX = "checkpoint-"


@dataclass(kw_only=True, slots=True)
class Progress:
    """Where a run stands."""

    update: int = 0
    """Updates done."""
    version: int = 0
    """Number of the last published (or about to be published) policy version."""
    unpublished_steps: int = 0
    """Optimizer steps since that version; 0 in every checkpoint."""
    policies: dict[int, str] = field(default_factory=dict)
    """Version number → weights hash of all that this run published and did not abandon."""


def save(
    folder: Path,
    engine: TrainerEngine,
    progress: Progress,
    ledger: Ledger,
    *,
    recipe_hash: str,
    epoch: int,
    keep: int,
) -> Path:
    """Write the next checkpoint; on return it is durable. Older ones are pruned to `keep`."""
    older = _all(folder)
    serial = int(older[-1].name.removeprefix(PREFIX)) + 1 if older else 1
    final = folder / f"{PREFIX}{serial:06d}"
    temporary = fresh_folder(final)
    engine.save(temporary)
    (temporary / LEDGER).write_bytes(ledger.dump())
    (temporary / RNG).write_bytes(torch.get_rng_state().numpy().tobytes())
    manifest = {
        "format": FORMAT,
        "progress": asdict(progress),
        "recipe_hash": recipe_hash,
        "learner_epoch": epoch,
        "files": digests(temporary),
    }
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
    commit_folder(temporary, final)
    write_durably(folder / LATEST, final.name.encode())
    for old in _all(folder)[:-keep]:
        discard_folder(old)
    return final


def load(
    folder: Path, engine: TrainerEngine, *, recipe_hash: str
) -> tuple[Progress, Ledger] | None:
    """Load the newest checkpoint into `engine`; None when there is none.

    Raises CheckpointError naming the file that is missing or differs, and when the recipe differs.
    """
    path = newest(folder)
    if path is None:
        return None
    manifest = verify(path)
    if manifest["recipe_hash"] != recipe_hash:
        raise CheckpointError(
            f"{path} was made by another recipe ({manifest['recipe_hash'][:12]}…, now "
            f"{recipe_hash[:12]}…)",
            hint="put the configuration back, or start a run of another id in another folder",
        )
    engine.load(path)
    torch.set_rng_state(torch.frombuffer(bytearray((path / RNG).read_bytes()), dtype=torch.uint8))
    progress = Progress(**manifest["progress"])
    progress.policies = {int(number): digest for number, digest in progress.policies.items()}
    return progress, Ledger.parse((path / LEDGER).read_bytes())


def newest(folder: Path) -> Path | None:
    """The newest committed checkpoint; CheckpointError when `latest` names one that is gone."""
    found = _all(folder)
    pointer = folder / LATEST
    if pointer.exists():
        name = pointer.read_text().strip()
        if not found or found[-1].name < name:
            raise CheckpointError(
                f"{pointer} names {name}, which is missing",
                hint="restore that folder; to fall back to an older one, delete the file `latest` "
                "(groups trained since are lost)",
            )
    return found[-1] if found else None


def verify(path: Path) -> dict:
    """The manifest of a checkpoint whose every file is there and unchanged."""
    manifest_path = path / MANIFEST
    try:
        manifest = json.loads(manifest_path.read_text())
        expected, form = manifest["files"], manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{manifest_path}: missing or unreadable", hint=_HINT) from error
    if form != FORMAT:
        raise CheckpointError(f"{manifest_path}: format {form}, this learner reads {FORMAT}")
    actual = digests(path)
    del actual[MANIFEST]
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            raise CheckpointError(f"{path / name}: missing", hint=_HINT)
        if name not in expected:
            raise CheckpointError(f"{path / name}: not in the manifest", hint=_HINT)
        if actual[name] != expected[name]:
            raise CheckpointError(
                f"{path / name}: its digest differs from the manifest's", hint=_HINT
            )
    return manifest


_HINT = (
    "restore the folder from a copy; to fall back to an older checkpoint, remove it and the file "
    "`latest` (groups trained since are lost)"
)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(PREFIX + "*") if path.is_dir())
