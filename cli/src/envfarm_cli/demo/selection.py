"""Which of the probed tasks are trained on: those whose groups will hold both rewards often enough."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_numbers import jeffreys
from envfarm_numbers.selection import Settings, select
from envfarm_numbers.selection_files import read_inputs, texts
from envfarm_numbers.task_facts import TaskFacts

FEWEST_TASKS = 8
"""With fewer a batch would see the same tasks again and again."""


def select_tasks(facts: dict[str, TaskFacts], folder: Path, recipe: DemoRecipe) -> dict[str, Any]:
    """As `envfarm select` does it, all selected tasks in training; the held-out ones are apart.

    When too few are left to train on, as after a very short warm start, all probed tasks are taken
    and the result says so.
    """
    inputs = read_inputs([folder / "probe" / "attempts.jsonl"], [], [])
    settings = Settings(
        minimum_clean=recipe.probe.minimum,
        validation_share=0.0,
        seed=recipe.seed,
        group_size=recipe.train.group_size,
    )
    found = select(inputs.policy, facts, replace(settings, bands=jeffreys.BANDS))
    kept = [task for task in found.part("train") if task.band in settings.bands]
    all_taken = len(kept) < FEWEST_TASKS
    if not all_taken:
        found = select(inputs.policy, facts, settings)
    summary = found.summary()
    for name, text in texts(found, inputs).items():
        write_durably(folder / "selection" / name, text.encode())
    return {
        "tasks": [task.facts.task_id for task in found.part("train")],
        "bands": {name: band["candidates"] for name, band in summary["bands"].items()},
        "retained": list(found.settings.bands),
        "all_taken": all_taken,
        "expected_informative_groups": summary["expected_informative_groups"],
    }
