"""A selection on disk: same inputs, same bytes; every file names the manifest it belongs to.

manifest.json    settings, input hashes, versions, the probed policy, counts by band and reason
tasks.jsonl      every candidate with its posterior, decision and reasons
train.json, validation.json    task ids with content hashes
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import file_digest
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from envfarm.canonical import bytes_hash, content_hash
from envfarm.errors import ConfigError

from envfarm_numbers.counts import CampaignCounts, read_counts
from envfarm_numbers.rows import files_of
from envfarm_numbers.selection import Selection
from envfarm_numbers.suite import SELECTION_KEY, read_object

FORMAT = "envfarm.selection/1"
VERSIONS = ("envfarm-cli", "numpy", "scipy")


@dataclass(slots=True)
class Inputs:
    """What a selection was made from: the counts, and SHA-256 by file name of what was read."""

    policy: CampaignCounts
    reference: CampaignCounts | None
    hashes: dict[str, list[dict[str, str]]]


def read_inputs(policy: list[Path], reference: list[Path], exclusions: list[Path]) -> Inputs:
    """Reads rows and hashes their files beside it; the refusals are those of `read_counts`."""
    groups = {
        "policy": [file for path in policy for file in files_of(path)],
        "reference": [file for path in reference for file in files_of(path)],
        "exclusions": exclusions,
    }
    with ThreadPoolExecutor(1) as pool:
        hashes = pool.submit(_hash_all, groups)
        counts = read_counts(policy)
        other = read_counts(reference) if reference else None
        return Inputs(counts, other, hashes.result())


def texts(selection: Selection, inputs: Inputs) -> dict[str, str]:
    """Name → content of each file."""
    lines = [msgspec.json.encode(task.to_dict(), order="sorted") for task in selection.judged]
    tasks = b"".join(line + b"\n" for line in lines).decode()
    policy_hashes = sorted(inputs.policy.identity["policy_hash"])
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "settings": asdict(selection.settings),
        "inputs": inputs.hashes,
        "versions": {name: metadata.version(name) for name in VERSIONS},
        "policy": {name: sorted(values) for name, values in inputs.policy.identity.items()},
        "reference": inputs.reference
        and {name: sorted(values) for name, values in inputs.reference.identity.items()},
        "summary": selection.summary(),
        "near_duplicates": selection.duplicates,
        "tasks_sha256": bytes_hash(tasks.encode()),
    }
    identity = content_hash(manifest)
    found = {
        "manifest.json": _readable({SELECTION_KEY: identity, **manifest}),
        "tasks.jsonl": tasks,
    }
    for part in ("train", "validation"):
        found[f"{part}.json"] = _readable(
            {
                SELECTION_KEY: identity,
                "part": part,
                "policy_hash": policy_hashes[0] if policy_hashes else "",
                "tasks": {
                    task.facts.task_id: task.facts.task_hash for task in selection.part(part)
                },
            }
        )
    return found


@dataclass(frozen=True, slots=True)
class SelectedTasks:
    """What training reads: one part of a selection."""

    selection: str
    """Hash of the manifest."""
    part: str
    policy_hash: str
    """Weights that the tasks were probed with."""
    tasks: dict[str, str]
    """Task id → content hash."""

    @classmethod
    def read(cls, path: Path) -> "SelectedTasks":
        """From train.json, validation.json, or the folder of a selection (its training part).

        ConfigError when it is no part of a selection.
        """
        if path.is_dir():
            path = path / "train.json"
        value = read_object(path, "a selection")
        tasks = value.get("tasks")
        if SELECTION_KEY not in value or not isinstance(tasks, dict) or not tasks:
            raise ConfigError(
                f"{path} is no list of selected tasks", hint="`envfarm select` writes train.json"
            )
        return cls(
            str(value[SELECTION_KEY]),
            str(value.get("part", "")),
            str(value.get("policy_hash", "")),
            {str(task): str(known) for task, known in tasks.items()},
        )

    def policy_warning(self, policy_hash: str) -> str:
        """What to say when training starts from other weights than were probed; empty when not."""
        if not self.policy_hash or not policy_hash or self.policy_hash == policy_hash:
            return ""
        return (
            f"the tasks were selected for policy {self.policy_hash[:12]}, and training starts from "
            f"{policy_hash[:12]}: their difficulty may be another"
        )


def read_tasks(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(manifest, lines of tasks.jsonl); ConfigError when one of them was edited."""
    manifest = read_object(folder / "manifest.json", "the manifest of a selection")
    known = manifest.pop(SELECTION_KEY, None)
    if manifest.get("format") != FORMAT or content_hash(manifest) != known:
        raise ConfigError(
            f"{folder / 'manifest.json'} is not a manifest as `envfarm select` wrote it",
            hint="select anew; a manifest is never edited",
        )
    data = (folder / "tasks.jsonl").read_bytes()
    if bytes_hash(data) != manifest["tasks_sha256"]:
        raise ConfigError(f"{folder / 'tasks.jsonl'} is not the one of its manifest")
    return {SELECTION_KEY: known, **manifest}, [json.loads(line) for line in data.splitlines()]


def _hash_all(groups: dict[str, list[Path]]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for name, paths in groups.items():
        found[name] = []
        for path in paths:
            with path.open("rb") as source:
                digest = file_digest(source, "sha256").hexdigest()
            found[name].append({"file": path.name, "sha256": digest})
    return found


def _readable(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
