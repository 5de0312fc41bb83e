"""Checkpoint folders: whole or absent, verified before anything of them is loaded.

    <folder>/checkpoint-000005/
        state/…          DeepSpeed's checkpoint: model and optimizer, one part a rank
        rng-<rank>.bin   torch's generator state
        manifest.json    facts, SHA-256 of every other file
    <folder>/latest      name of the newest, for people and tools

Renaming the folder into place is the commit; `latest` follows and is put right at the next load.
DeepSpeed's files are pickles: they are read only after their digests match the manifest.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from envfarm.errors import CheckpointError

from learner import process_group
from learner.files import (
    UNIVERSAL,
    commit_folder,
    digests,
    discard_folder,
    fresh_folder,
    partial,
    remove_leftovers,
    write_durably,
    writing,
)
from learner.universal import convert, has_shards

FORMAT = 2
MANIFEST = "manifest.json"
LATEST = "latest"
PREFIX = "checkpoint-"
NAME = re.compile(rf"{PREFIX}\d{{6,}}")
HINT = (
    "restore the folder from a copy; to fall back to an older checkpoint, remove it and the file "
    "`latest` (groups trained since are lost)"
)


class Saves(Protocol):
    """What of the engine a checkpoint needs; both are called on every rank."""

    def save(self, folder: Path) -> None: ...
    def load(self, folder: Path, *, universal: bool = False) -> None: ...


def save(
    folder: Path,
    engine: Saves,
    *,
    facts: dict[str, Any],
    keep: int,
    fill: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Write the next checkpoint; on return it is durable. Older ones are pruned to `keep`.

    Every rank calls it; `fill` adds files of rank 0.
    """
    older = all_of(folder)
    serial = _serial(older[-1]) + 1 if older else 1
    final = folder / f"{PREFIX}{serial:06d}"
    with writing(final):
        _write(final, engine, facts, fill)
    if process_group.rank() == 0:
        for old in all_of(folder)[:-keep]:
            discard_folder(old)
    process_group.barrier()
    return final


def _write(final: Path, engine: Saves, facts: dict[str, Any], fill: Callable[[Path], None]) -> None:
    leads = process_group.rank() == 0
    temporary = fresh_folder(final) if leads else partial(final)
    process_group.barrier()
    engine.save(temporary)
    rng = torch.get_rng_state().numpy().tobytes()
    (temporary / f"rng-{process_group.rank()}.bin").write_bytes(rng)
    process_group.barrier()
    if leads:
        fill(temporary)
        manifest = {
            "format": FORMAT,
            "ranks": process_group.ranks(),
            **facts,
            "files": digests(temporary),
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        commit_folder(temporary, final)
        write_durably(final.parent / LATEST, final.name.encode())


def load(
    folder: Path, engine: Saves, *, recipe_hash: str, initial_model: str = ""
) -> tuple[Path, dict[str, Any]] | None:
    """Load the newest checkpoint into `engine`; its path and manifest, None when there is none.

    Every rank calls it; rank 0 verifies. A checkpoint of another number of ranks is converted first.
    Raises CheckpointError naming the file that is missing or differs, and when the recipe or the
    initial model (its hash, where the checkpoint knows one) differs.
    """
    path = newest(folder)
    if path is None:
        return None
    if process_group.rank() == 0:
        remove_leftovers(folder)
        manifest = verify(path)
        if manifest["recipe_hash"] != recipe_hash:
            raise CheckpointError(
                f"{path} was made by another recipe ({manifest['recipe_hash'][:12]}…, now "
                f"{recipe_hash[:12]}…)",
                hint="put the configuration back, or start a run of another id in another folder",
            )
        began_with = manifest.get("initial_model", initial_model)
        if began_with != initial_model:
            raise CheckpointError(
                f"{path} began with another model ({began_with[:12]}…) than model.path holds now "
                f"({initial_model[:12]}…)",
                hint="name the model that the run began with, or start a run of another id",
            )
    process_group.barrier()
    manifest = json.loads((path / MANIFEST).read_text())
    if manifest["ranks"] == process_group.ranks() or not has_shards(path):
        engine.load(path)
    else:
        _load_converted(path, engine, manifest["ranks"])
    rng = path / f"rng-{process_group.rank()}.bin"
    if rng.exists():
        torch.set_rng_state(torch.frombuffer(bytearray(rng.read_bytes()), dtype=torch.uint8))
    return path, manifest


def _load_converted(path: Path, engine: Saves, ranks: int) -> None:
    universal = path.with_name(f".{path.name}.{UNIVERSAL}")
    if process_group.rank() == 0:
        print(
            f"{path.name} was made by {ranks} ranks and is read by {process_group.ranks()}: "
            "converting it",
            file=sys.stderr,
            flush=True,
        )
        convert(path, universal)
    process_group.barrier()
    engine.load(universal, universal=True)
    process_group.barrier()
    if process_group.rank() == 0:
        shutil.rmtree(universal)


def newest(folder: Path) -> Path | None:
    """The newest committed checkpoint; CheckpointError when `latest` names one that is gone."""
    found = all_of(folder)
    pointer = folder / LATEST
    if pointer.exists():
        name = pointer.read_text(errors="replace").strip()
        if not found or found[-1].name < name:
            raise CheckpointError(
                f"{pointer} names {name}, which is missing",
                hint="restore that folder; to fall back to an older one, delete the file `latest` "
                "(groups trained since are lost)",
            )
    return found[-1] if found else None


def verify(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint whose every file is there and unchanged."""
    manifest_path = path / MANIFEST
    try:
        manifest = json.loads(manifest_path.read_text())
        form, ranks, recipe = manifest["format"], manifest["ranks"], manifest["recipe_hash"]
        expected = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{manifest_path}: missing or unreadable", hint=HINT) from error
    if form != FORMAT:
        raise CheckpointError(f"{manifest_path}: format {form}, this learner reads {FORMAT}")
    if not isinstance(ranks, int) or not isinstance(recipe, str):
        raise CheckpointError(f"{manifest_path}: ranks or recipe_hash is not one", hint=HINT)
    actual = digests(path)
    del actual[MANIFEST]
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            raise CheckpointError(f"{path / name}: missing", hint=HINT)
        if name not in expected:
            raise CheckpointError(f"{path / name}: not in the manifest", hint=HINT)
        if actual[name] != expected[name]:
            raise CheckpointError(
                f"{path / name}: its digest differs from the manifest's", hint=HINT
            )
    return manifest


def all_of(folder: Path) -> list[Path]:
    """Committed checkpoints, oldest first; somebody's copy under another name is none."""
    found = (path for path in folder.glob(PREFIX + "*") if NAME.fullmatch(path.name))
    return sorted((path for path in found if path.is_dir()), key=_serial)


def _serial(path: Path) -> int:
    return int(path.name.removeprefix(PREFIX))
