"""`envfarm tasks validate` on an env-server of its own."""

import shutil
from pathlib import Path

import pytest

from tests.support.envfarm_command import ROOT, Envfarm


@pytest.fixture
def domains(tmp_path) -> Path:
    copied = shutil.copytree(ROOT / "domains/orders", tmp_path / "domains/orders")
    return Path(copied).parent


@pytest.fixture
def farm(tmp_path) -> Envfarm:
    return Envfarm(tmp_path / "state")


def test_a_sound_task_is_proved_and_nothing_is_kept(farm: Envfarm, domains: Path):
    answer = farm.run(
        "tasks", "validate", "--task", "orders/cancel-placed", "--json", "--domains", str(domains)
    )
    assert answer.code == 0, answer.err
    assert (answer.json["tasks"], answer.json["passed"], answer.json["failures"]) == (1, 1, [])
    assert answer.json["mutants"] == answer.json["mutants_killed"] > 0
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
