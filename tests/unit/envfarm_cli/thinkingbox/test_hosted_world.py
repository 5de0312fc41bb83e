"""Tasks of a dataset as domains: three parts, and nothing golden on the agent's side."""

import json
from pathlib import Path

import pytest
from envfarm.canonical import content_hash

from env_server.task_inits import read_inits
from env_server.world import load_task, load_world
from envfarm_cli.main import main
from envfarm_cli.thinkingbox.hosted_world import withheld
from tests.support.hosted_worlds import DESK, import_desk

GOLDEN = {"golden_test_case": {"tool_interactions": [1]}, "rubrics_yesno": ["?"], "rubrics": {}}


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "environment" not in path.parts
    }


def test_each_part_holds_what_its_reader_may_know(tmp_path: Path, capsys):
    found = texts(import_desk(tmp_path))
    assert texts(import_desk(tmp_path)) == found
    agent = "".join(text for name, text in found.items() if name.startswith("desk_tasks/world/"))
    for word in ("golden", "rubric", "result_db_hash", "You are Ada"):
        assert word not in agent, word
    init = json.loads(found["desk_tasks/world/inits/test_badge.json"])
    assert init["desk"]["data_patch"] == {"tickets": [{"id": 7, "about": "keyboard"}]}
    assert [item["name"] for item in init["desk"]["sources"]] == ["badges.md", "laptops.md"]
    talk = json.loads(found["desk_tasks/user/thinkingbox/test_badge.json"])
    assert talk["user_context"].startswith("You are Ada") and talk["max_user_sim_turns"] == 10
    assert talk["tools"][1]["override_description"] == "Open a ticket and get its id."
    private = json.loads(found["desk_tasks/private/thinkingbox/test_badge.json"])
    assert private["golden"]["desk"]["rubrics_yesno"] == ["Is a ticket named?"]
    assert private["uid"] == "desk_tasks.py:test_badge" and "__tb_test_fn" in private["test_code"]
    secret = tmp_path / "worlds/desk_tasks/private/thinkingbox/test_badge.json"
    assert secret.stat().st_mode & 0o077 == 0
    hosted = json.loads(found["hosted.json"])["hosted"]
    assert hosted["desk_tasks.py:test_badge"]["id"] == "desk_tasks/test_badge"


def test_a_hosted_world_is_one_that_the_env_server_reads(tmp_path: Path, capsys):
    folder = import_desk(tmp_path) / "desk_tasks" / "world"
    world = load_world(folder, is_pinned=False)
    assert world.now.isoformat() == "2025-10-01T13:00:00+00:00"
    assert world.offer == ("list_tickets", "open_ticket", "today", "search_policy")
    assert world.policy == (
        "You work at a help desk. End your last message with <DONE>.\n\n"
        "Open a ticket for every request."
    )
    task = load_task(folder / "tasks" / "test_badge.yaml", world)
    assert task.opening == "I lost my badge." and task.limits.max_total_tokens == 133_120
    path = folder / "inits" / "test_badge.json"
    path.write_text(path.read_text().replace("keyboard", "mouse"))
    assert load_task(folder / "tasks" / "test_badge.yaml", world).task_hash != task.task_hash


def test_tasks_of_an_earlier_import_are_gone_and_pins_stay(tmp_path: Path, capsys):
    worlds = import_desk(tmp_path)
    pins = worlds / "desk_tasks/world/servers.json"
    pins.write_text("{}")
    chosen = tmp_path / "list.yaml"
    chosen.write_text("- desk_tasks.py:test_badge\n")
    found = texts(import_desk(tmp_path, "--test-list", str(chosen)))
    assert not [name for name in found if "laptop" in name] and pins.exists()
    assert "desk_tasks/private/thinkingbox/test_badge.json" in found


def test_what_is_withheld_is_exactly_what_the_rest_lacks():
    state = {"a": {"data_patch": {"golden": 1}, "sources": [], **GOLDEN}, "b": {}}
    told, kept = withheld(state)
    assert told == {"a": {"data_patch": {"golden": 1}, "sources": []}}
    assert kept == {"a": GOLDEN}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"desk": GOLDEN}, "would be told golden_test_case"),
        ({"desk": {"MyRubric": 1}}, "would be told MyRubric"),
        ({"other": {}}, "other is no server"),
        ([], "an object of objects"),
        ({"desk": 1}, "an object of objects"),
    ],
)
def test_the_env_server_refuses_inits_that_it_must_not_have(tmp_path: Path, value, told: str):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(value))
    with pytest.raises(Exception, match=told):
        read_inits(path, ["desk"])
    assert content_hash(read_inits(tmp_path / "none.json", ["desk"])) == content_hash({})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "no virtual environment is given"),
        (("--now", "yesterday"), "no time with a zone"),
        (("--now", "2025-10-01"), "no time with a zone"),
        (("--environment", "nowhere"), "no virtual environment: it has no bin/python"),
        (("--variable", "A B=c"), "no name of a variable"),
    ],
)
def test_what_cannot_be_hosted_is_refused_in_one_line(tmp_path: Path, capsys, options, told: str):
    code = main(
        [
            *("import", "thinkingbox", "--dataset", str(DESK / "dataset"), "--json"),
            *("--servers", str(DESK / "servers.yaml"), "--worlds", str(tmp_path / "w"), *options),
        ]
    )
    assert code == 2 and told in json.loads(capsys.readouterr().out)["message"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path, capsys):
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "mine").write_text("x")
    with pytest.raises(AssertionError):
        import_desk(tmp_path)
    assert [path.name for path in (tmp_path / "worlds").iterdir()] == ["mine"]
