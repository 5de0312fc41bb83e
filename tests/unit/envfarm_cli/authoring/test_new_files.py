"""`tasks new` and `tasks schema`: files that are right as they stand, and nothing overwritten."""

import json
from pathlib import Path

import pytest

from envfarm_cli.authoring.domain_facts import facts_of
from envfarm_cli.authoring.lint import lint
from envfarm_cli.authoring.task_text import read_task
from envfarm_cli.domain_files import find_task, find_tasks
from envfarm_cli.main import main
from grader.checkset import load_checkset
from rollout_gateway.user import Users


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    folder = tmp_path / "domains"
    assert main(["tasks", "new", "desk/one", "--domains", str(folder)]) == 0
    return folder


def found(domains: Path) -> list[tuple[str, str]]:
    tasks = [read_task(files) for files in find_tasks(domains)]
    return [(f.task, f.code) for f in lint(tasks, facts_of(domains, ["desk"]))]


def test_a_new_domain_is_whole_and_free_of_mistakes(domains: Path):
    assert found(domains) == []
    assert len(facts_of(domains, ["desk"])["desk"].tools) == 4
    assert load_checkset(domains).task_ids() == ["desk/one"]
    Users(domains)
    for path in domains.glob("desk/*/**/*.yaml"):
        schema = path.read_text().split("\n")[0].partition("$schema=")[2]
        assert (path.parent / schema).resolve().is_file(), path


def test_a_second_task_has_gaps_that_lint_finds_and_names_the_tools(domains: Path):
    assert main(["tasks", "new", "desk/two", "--domains", str(domains)]) == 0
    assert ("desk/two", "unfinished") in found(domains)
    private = (domains / "desk/private/two.yaml").read_text()
    assert "#   writes extend_loan(loan_id: string, days: integer)" in private
    # The strict readers take the gaps, so that the rest of the domain goes on working.
    assert "desk/two" in load_checkset(domains).task_ids()


def test_a_copy_is_the_other_task_under_its_own_id(domains: Path):
    arguments = ["tasks", "new", "desk/three", "--like", "desk/one", "--domains", str(domains)]
    assert main(arguments) == 0
    one, three = (read_task(find_task(domains, f"desk/{name}")) for name in ("one", "three"))
    assert three.public["id"] == three.user["task"] == three.private["task"] == "desk/three"
    assert three.calls == one.calls


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["desk/one"], "is there already"),
        (["Desk/one"], "is no task id"),
        (["desk"], "is no task id"),
        (["desk/../x"], "is no task id"),
        (["other/two", "--like", "desk/one"], "another domain"),
        (["desk/two", "--like", "desk/nobody"], "no task 'desk/nobody'"),
    ],
)
def test_nothing_is_overwritten_and_mistakes_are_one_line(
    domains: Path, arguments: list[str], said: str, capsys
):
    before = {path: path.read_text() for path in domains.rglob("*") if path.is_file()}
    assert main(["tasks", "new", *arguments, "--domains", str(domains)]) == 2
    assert said in capsys.readouterr().err
    assert {path: path.read_text() for path in domains.rglob("*") if path.is_file()} == before


def test_a_dry_run_names_the_files_and_writes_none(tmp_path: Path, capsys):
    arguments = [
        "tasks",
        "new",
        "desk/one",
        "--dry-run",
        "--json",
        "--domains",
        str(tmp_path / "d"),
    ]
    assert main(arguments) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 12
    assert not (tmp_path / "d").exists()


def test_a_schema_is_printed_or_written_and_checked(domains: Path, capsys):
    assert main(["tasks", "schema", "user"]) == 0
    assert set(json.loads(capsys.readouterr().out)["properties"]) == {
        "task",
        "context",
        "script",
        "end_after",
    }
    where = ["--domains", str(domains)]
    assert main(["tasks", "schema", "--check", *where]) == 0
    (domains / ".schemas/task.json").write_text("{}")
    assert main(["tasks", "schema", "--check", *where]) == 1
    assert main(["tasks", "schema", *where]) == 0
    assert main(["tasks", "schema", "--check", *where]) == 0
    assert main(["tasks", "schema", "golden"]) == 2
