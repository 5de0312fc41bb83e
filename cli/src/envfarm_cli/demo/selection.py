"""Which of the probed tasks are trained on: those whose groups will hold both rewards often enough."""

from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import write_json
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.failure import Failure
from envfarm_numbers import jeffreys

RETAINED = ("hard", "medium", "easy")
FEWEST_TASKS = 8
"""With fewer a batch would see the same tasks again and again."""


def select_tasks(probed: list[dict[str, Any]], folder: Path, recipe: DemoRecipe) -> dict[str, Any]:
    """The middle three bands; Failure when they hold too few tasks to train on."""
    kept = [task for task in probed if task["band"] in RETAINED]
    bands = {band: sum(task["band"] == band for task in probed) for band in jeffreys.BANDS}
    if len(kept) < FEWEST_TASKS:
        raise Failure(
            f"only {len(kept)} of {len(probed)} training tasks are neither always nor never solved: "
            + ", ".join(f"{band} {count}" for band, count in bands.items()),
            hint="the warm start was too short or too long; another --seed or more --minutes",
        )
    size = recipe.train.group_size
    informative = jeffreys.informative_probability(
        [task["passed"] for task in kept], [task["clean"] for task in kept], size
    )
    found = {
        "tasks": [task["task_id"] for task in kept],
        "bands": bands,
        "informative_share": round(float(informative.mean()), 4),
    }
    write_json(folder / "selection.json", found)
    return found
