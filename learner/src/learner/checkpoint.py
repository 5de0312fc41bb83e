"""Where a run stands, in its checkpoints: progress, ledger, and the stream entries that it settles.

<run>/checkpoints/checkpoint-000005/groups.jsonl    beside what every checkpoint holds
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from envfarm.errors import CheckpointError

from learner.checkpoint_folder import HINT, MANIFEST
from learner.ledger import Ledger
from learner.trainee import Trainee

LEDGER = "groups.jsonl"


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
    trainee: Trainee,
    progress: Progress,
    ledger: Ledger,
    *,
    recipe_hash: str,
    epoch: int,
    keep: int,
) -> Path:
    """Write the next checkpoint; on return it is durable. Older ones are pruned to `keep`."""

    def add_ledger(path: Path) -> None:
        (path / LEDGER).write_bytes(ledger.dump())

    return trainee.save(
        folder,
        facts={
            "progress": asdict(progress),
            "recipe_hash": recipe_hash,
            "learner_epoch": epoch,
        },
        keep=keep,
        fill=add_ledger,
    )


def load(folder: Path, trainee: Trainee, *, recipe_hash: str) -> tuple[Progress, Ledger] | None:
    """Load the newest checkpoint into `trainee`; None when there is none.

    Raises CheckpointError naming the file that is missing or differs, and when the recipe differs.
    """
    found = trainee.load(folder, recipe_hash)
    if found is None:
        return None
    path, manifest = found
    try:
        progress = Progress(**manifest["progress"])
        progress.policies = {int(number): digest for number, digest in progress.policies.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path / MANIFEST}: its progress cannot be read", hint=HINT
        ) from error
    return progress, Ledger.parse((path / LEDGER).read_bytes())
