"""`envfarm import thinkingbox`: what it writes, where it refuses to, and what it says."""

import json
from pathlib import Path

import pytest

from envfarm_cli.main import main

SAMPLE = Path(__file__).parents[3] / "support" / "thinkingbox"


def run(*arguments: str) -> int:
    return main(
        [
            *("import", "thinkingbox", "--dataset", str(SAMPLE)),
            *("--servers", str(SAMPLE / "servers.yaml"), "--json", *arguments),
        ]
    )


def test_a_catalogue_holds_hashes_and_each_part_what_it_may(tmp_path: Path, capsys):
    texts = []
    for name in ("one", "two"):
        out = tmp_path / name / "catalogue"
        assert run("--out", str(out), "--list-as", "ours") == 0
        texts.append({path.name: path.read_text() for path in sorted(out.iterdir())})
    assert texts[0] == texts[1]
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (found["tasks"], found["without_obstacles"]) == (3, 0)
    listed = json.loads(texts[0]["catalogue.json"])
    assert listed["hash"] == found["hash"]
    assert [task["id"] for task in listed["tasks"]] == [
        *("depot_group1/test_one", "depot_group1/test_two", "talks/later")
    ]
    assert "heavy" not in texts[0]["catalogue.json"] + texts[0]["hashes.json"]
    assert "own P-1" not in texts[0]["agent.jsonl"] and "grams" not in texts[0]["agent.jsonl"]
    assert "own P-1" in texts[0]["user.jsonl"]
    assert "golden" in texts[0]["private.jsonl"]
    assert (tmp_path / "one/catalogue/private.jsonl").stat().st_mode & 0o077 == 0
    assert json.loads(texts[0]["hashes.json"])["name"] == "ours"


def test_a_test_list_chooses(capsys):
    assert run("--test-list", str(SAMPLE / "list.yaml")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tasks"], found["folder"]) == (1, None)


def test_a_test_case_that_is_missing_is_named(tmp_path: Path, capsys):
    path = tmp_path / "list.yaml"
    path.write_text("- talks.yaml:later\n- talks.yaml:sooner\n")
    assert run("--test-list", str(path)) == 1
    (lost,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert lost["uid"] == "talks.yaml:sooner" and "no test case 'sooner'" in lost["reason"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--out", str(SAMPLE / "dataset" / "x")), "own tree"),
        (("--list-as", "x"), "--out"),
        (("--agent", "nobody"), "no agent 'nobody'"),
        (("--test-list", "none.yaml"), "none.yaml cannot be read"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments: tuple[str, ...], told: str, capsys):
    assert run(*arguments) == 2
    assert told in json.loads(capsys.readouterr().out)["message"]
