"""Datasets in ThinkingBox's formats: what is merged with what, what is refused, and that nothing runs."""

import shutil
from pathlib import Path

import pytest
from envfarm.errors import ConfigError

from envfarm_cli.thinkingbox import server_list
from envfarm_cli.thinkingbox.catalogue import task_id
from envfarm_cli.thinkingbox.dataset import Dataset, read_selectors
from envfarm_cli.thinkingbox.hosting import needs, obstacles
from envfarm_cli.thinkingbox.test_case import merged

SAMPLE = Path(__file__).parents[3] / "support" / "thinkingbox"
ONE, TWO, LATER = "depot_group1.py:test_one", "depot_group1.py:test_two", "talks.yaml:later"


@pytest.fixture
def dataset() -> Dataset:
    return Dataset(SAMPLE)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A dataset that a test may spoil."""
    shutil.copytree(SAMPLE / "dataset", tmp_path / "dataset")
    return tmp_path / "dataset"


def hydrated(dataset: Dataset, selector: str):
    return dataset.hydrate(selector, dataset.agent("clerk"))


def test_every_test_case_is_found_and_no_test_file_is_run(dataset: Dataset):
    assert dataset.selectors() == [ONE, TWO, LATER]


def test_a_test_is_merged_into_its_scenario(dataset: Dataset):
    content = hydrated(dataset, ONE).content
    assert content["world_state"] == {
        "scales": {
            "sources": [
                {"name": "rules.md", "snippets": ["Weigh twice."]},
                {"name": "more.md", "snippets": ["Never guess."]},
            ],
            "limits": {"grams": 900, "parcels": 3},
            "since": "2025-10-01",
        }
    }
    assert content["tags"] == {
        "labels": ["calm", "shared", "own"],
        "domain": "logistics",
        "eval": None,
        "category": ["user"],
        "skip": False,
    }
    assert content["bot_instructions"] == "Weigh what is named."
    assert content["max_user_sim_turns"] == 10
    assert list(content["fixtures"]) == ["clock"]


def test_the_code_of_a_test_keeps_its_lines_and_leaves_out_other_tests(dataset: Dataset):
    code = hydrated(dataset, TWO).content["test_code"]
    lines = code.split("\n")
    whole = (SAMPLE / "dataset/test_case/depot/depot_group1.py").read_text().split("\n")
    place = whole.index("def test_two(x, judge):")
    assert lines[place] == whole[place] and "def check(x):" in lines
    assert "test_one" not in code and lines[-2:] == ["__tb_test_fn = test_two", ""]


def test_history_is_a_slice_by_message_id(dataset: Dataset):
    history = hydrated(dataset, LATER).content["history"]
    assert [message["T"] for message in history] == ["Text", "ToolResponse"]


def test_obstacles_and_needs_are_told_in_words(dataset: Dataset):
    servers = server_list.read(SAMPLE / "servers.yaml")
    assert obstacles(hydrated(dataset, ONE), servers) == ["fixture clock is code of its dataset"]
    assert needs(hydrated(dataset, ONE)) == ["user simulator", "end-of-turn tools"]
    assert "judge" in needs(hydrated(dataset, TWO))
    assert obstacles(hydrated(dataset, LATER), servers) == [
        "server radio speaks SSE; only streamable HTTP is mounted",
        "its query is formatted with what a server's init answers",
        "fixture clock is code of its dataset",
        "fixture oracle is code of its dataset",
        "its history holds tool calls, which must be replayed",
    ]
    assert "its dataset skips it" in obstacles(hydrated(dataset, TWO), servers)
    assert "server scales is not in the servers file" in obstacles(hydrated(dataset, ONE), {})


def test_a_command_gets_its_interpreter_and_keeps_its_braces():
    assert server_list.read(SAMPLE / "servers.yaml")["scales"].mount == {
        "command": ["python", "-m", "depot.scales", "--set={}"],
        "variables": {"UNIT": "grams"},
    }


def test_a_task_hash_is_of_content_and_not_of_place(dataset: Dataset, copied: Path):
    assert hydrated(Dataset(copied), ONE).hash == hydrated(dataset, ONE).hash
    path = copied / "test_case/depot/depot_group1.py"
    path.write_text(path.read_text().replace("P-1?", "P-1??"))
    assert hydrated(Dataset(copied), ONE).hash != hydrated(dataset, ONE).hash
    assert hydrated(Dataset(copied), LATER).hash == hydrated(dataset, LATER).hash


@pytest.mark.parametrize(
    ("state", "own", "both"),
    [
        ({"a": [1]}, {"a": [2]}, {"a": [1, 2]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({"a": {"b": 1}}, {"a": {"c": None}}, {"a": {"b": 1, "c": None}}),
        ({"a": [1]}, {"a": None}, {"a": None}),
    ],
)
def test_merging(state: dict, own: dict, both: dict):
    assert merged(state, own) == both


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("test_case/bad.py", "x = (\n", r"bad.py:1: not valid Python"),
        ("test_case/bad.py", "a = 1; b = 2\n", r"bad.py:1: two statements stand on one line"),
        ("test_case/bad.py", '"""!\n- 1"""\n', r"bad.py:1: the YAML after `!` is no mapping"),
        (
            "test_case/bad.py",
            'def t():\n    """!\n    hm: 1"""\n',
            r"bad.py:2: there is no key 'hm'",
        ),
        (
            "test_case/bad.py",
            'def t():\n    """!\n    a: [\n    """\n',
            r"bad.py:4: not valid YAML",
        ),
        ("test_case/bad.py", 'def t():\n    """!\n    query: x"""\n', r"scenario: Field required"),
        ("test_case/bad.py", "(" * 5000 + ")" * 5000, r"bad.py.* not valid Python"),
        ("test_case/bad.yaml", "test_cases: {}", r"bad.yaml:1: test_cases"),
        (
            "test_case/bad.yaml",
            "a: &a [1]\nb: &b [*a,*a]\nc: .nan",
            r"a float has no place in JSON",
        ),
        ("test_case/bad.yaml", "!!python/object:os.system {}", r"not valid YAML"),
    ],
)
def test_a_broken_file_is_named_with_its_line(copied: Path, file: str, text: str, told: str):
    (copied / file).write_text(text)
    with pytest.raises(ConfigError, match=told):
        Dataset(copied).selectors()


def test_a_bomb_of_aliases_is_refused(copied: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (copied / "test_case/bad.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="too large or too deep"):
        Dataset(copied).selectors()


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("depot_group1.py", "is not FILE:TEST"),
        ("depot_group1.py:a:b", "is not FILE:TEST"),
        ("none.py:test", "no test file 'none.py'"),
        ("../../servers.yaml:x", "no test file"),
        ("depot_group1.py:check", "no test case 'check'"),
    ],
)
def test_a_selector_that_names_nothing_is_refused(dataset: Dataset, selector: str, told: str):
    with pytest.raises(ConfigError, match=told):
        hydrated(dataset, selector)


def test_a_list_names_each_test_once(tmp_path: Path):
    path = tmp_path / "list.yaml"
    path.write_text(f"- {ONE}\n- {ONE}\n")
    with pytest.raises(ConfigError, match="stands there twice"):
        read_selectors(path)


def test_ids_are_those_of_envfarm():
    assert task_id("Some_File.py:test_Case-1") == "some_file/test_case-1"
