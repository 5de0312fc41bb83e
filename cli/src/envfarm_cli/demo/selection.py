"""Which of the probed tasks are trained on: those whose groups will hold both rewards often enough."""

from pathlib import Path
from typing import Any

from envfarm_cli.campaign.files import write_durably
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.failure import Failure
from envfarm_numbers.selection import Settings, select
from envfarm_numbers.selection_files import read_inputs, texts
from envfarm_numbers.task_facts import TaskFacts

FEWEST_TASKS = 8
"""With fewer a batch would see the same tasks again and again."""


def select_tasks(facts: dict[str, TaskFacts], folder: Path, recipe: DemoRecipe) -> dict[str, Any]:
    """As `envfarm select` does it, all selected tasks in training; the held-out ones are apart.

    Failure when too few tasks are left to train on.
    """
    inputs = read_inputs([folder / "probe" / "attempts.jsonl"], [], [])
    settings = Settings(
        minimum_clean=recipe.probe.minimum,
        validation_share=0.0,
        seed=recipe.seed,
        group_size=recipe.train.group_size,
    )
    found = select(inputs.policy, facts, settings)
    chosen = [task.facts.task_id for task in found.part("train")]
    summary = found.summary()
    bands = {name: band["candidates"] for name, band in summary["bands"].items()}
    if len(chosen) < FEWEST_TASKS:
        raise Failure(
            f"only {len(chosen)} of {len(found.judged)} training tasks are neither always nor never "
            "solved: " + ", ".join(f"{band} {count}" for band, count in bands.items()),
            hint="the warm start was too short or too long; try another --seed or more --minutes",
        )
    for name, text in texts(found, inputs).items():
        write_durably(folder / "selection" / name, text.encode())
    return {
        "tasks": chosen,
        "bands": bands,
        "retained": list(settings.bands),
        "expected_informative_groups": summary["expected_informative_groups"],
    }
