"""`envfarm tasks validate` on an env-server of its own."""

import shutil
from datetime import date
from pathlib import Path

import pytest

from envfarm_cli.domain_files import find_tasks
from tests.support.envfarm_command import ROOT, Envfarm

STRIDE = 31
"""Tasks from one day to the next; neighbours in the folder are much alike."""


@pytest.fixture
def domains(tmp_path) -> Path:
    copied = shutil.copytree(ROOT / "domains/orders", tmp_path / "domains/orders")
    return Path(copied).parent


@pytest.fixture
def farm(tmp_path) -> Envfarm:
    return Envfarm(tmp_path / "state")


def test_todays_sample_of_each_domain_is_proved(farm: Envfarm):
    """One task of every domain, another one each day, so that all come round."""
    chosen = []
    for domain in sorted({files.domain for files in find_tasks(ROOT / "domains")}):
        tasks = [files.task_id for files in find_tasks(ROOT / "domains", domain)]
        chosen.append(tasks[date.today().toordinal() * STRIDE % len(tasks)])
    words = [word for task in chosen for word in ("--task", task)]
    answer = farm.run("tasks", "validate", *words, "--stand-in-judge", "--json")
    assert answer.code == 0, (chosen, answer.json.get("failures"), answer.err)
    assert (answer.json["tasks"], answer.json["passed"]) == (len(chosen), len(chosen))
    assert answer.json["mutants"] > 0
    caught = answer.json["mutants_killed"] + answer.json["equivalent_declared"]
    assert answer.json["mutants"] == caught
    assert not list(farm.state.glob("validate-*"))


def test_a_task_whose_golden_run_fails_is_named_with_the_reason(farm: Envfarm, domains: Path):
    file = domains / "orders/private/cancel-placed.yaml"
    text = file.read_text()
    assert "tool: cancel_order" in text
    file.write_text(text.replace("tool: cancel_order", "tool: no_such_tool"))
    answer = farm.run(
        "tasks", "validate", "--task", "orders/cancel-placed", "--json", "--domains", str(domains)
    )
    assert answer.code == 1
    (failure,) = answer.json["failures"]
    assert failure["task"] == "orders/cancel-placed"
    assert "no_such_tool" in failure["reason"]


def test_which_tasks_must_be_said(farm: Envfarm):
    answer = farm.run("tasks", "validate")
    assert (answer.code, answer.out) == (2, "")
    assert "give one of --all, --domain NAME and --task ID" in answer.err
    assert farm.run("tasks", "validate", "--all", "--domain", "orders").code == 2


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "orders/world/tasks/cancel-placed.yaml",
            "id: orders/cancel-placed\ncolour: red\n",
            "cancel-placed.yaml:",
        ),
        ("orders/world/schema.sql", "CREATE TABLE nonsense (;\n", "syntax error"),
        ("orders/world/tools.py", "def broken(:\n", "tools.py"),
        ("orders/world/world.yaml", "world: orders\nworld: twice\n", "world.yaml:2"),
    ],
)
def test_a_broken_world_is_one_line_that_says_where(
    farm: Envfarm, domains: Path, file: str, text: str, said: str
):
    (domains / file).write_text(text)
    answer = farm.run(
        "tasks", "validate", "--task", "orders/cancel-placed", "--domains", str(domains)
    )
    assert answer.code in (1, 2)
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert said in answer.err
    assert not list(farm.state.glob("validate-*"))
