"""Which training tasks the demonstration takes."""

from pathlib import Path

import pytest

from envfarm_cli.campaign import files
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.demo.selection import FEWEST_TASKS, select_tasks
from envfarm_numbers.task_facts import TaskFacts
from tests.support.canned_farm import row

ROOT = Path(__file__).parents[4]
RECIPE = DemoRecipe.scaled(
    seed=1,
    minutes=20,
    control="none",
    learner=ROOT / "learner/configs/tiny-cpu.toml",
    domains=ROOT / "domains",
)


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", lambda descriptor: None)
        yield


def selected(folder: Path, passes: list[int]) -> dict:
    """`passes` of 8 attempts of each task pass."""
    tasks = [f"counter/t{n:02d}" for n in range(len(passes))]
    lines = [
        row(t, n, 1, float(n < p)) for t, p in zip(tasks, passes, strict=True) for n in range(8)
    ]
    (folder / "probe").mkdir()
    (folder / "probe/attempts.jsonl").write_text("".join(one.to_json() + "\n" for one in lines))
    facts = {t: TaskFacts(task_id=t, task_hash=f"hash of {t}") for t in tasks}
    return select_tasks(facts, folder, RECIPE)


def test_tasks_that_always_or_never_pass_are_left_out(tmp_path):
    found = selected(tmp_path, [0, 8] + [4] * FEWEST_TASKS)
    assert len(found["tasks"]) == FEWEST_TASKS and not found["all_taken"]
    assert found["bands"]["too_hard"] == found["bands"]["too_easy"] == 1
    assert (tmp_path / "selection/manifest.json").exists()
    assert found["expected_informative_groups"] > 0.9


def test_a_warm_start_that_solves_nothing_still_gives_tasks_to_train_on(tmp_path):
    found = selected(tmp_path, [0] * 10)
    assert len(found["tasks"]) == 10 and found["all_taken"]
