"""Worlds and tasks from files: hashes, and mistakes by file and line."""

import shutil
from pathlib import Path

import pytest
from envfarm.canonical import bytes_hash, content_hash
from envfarm.errors import BrokenWorld, ConfigError, UnknownTask

from env_server.world import HASHED_FILES, load_catalog
from tests.support.env_server import SHELF


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    shutil.copytree(SHELF, tmp_path / "domains", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "domains"


def world(domains: Path) -> Path:
    return domains / "shelf/world"


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_world_hash_covers_the_five_files(domains: Path):
    expected = content_hash(
        {name: bytes_hash((world(domains) / name).read_bytes()) for name in HASHED_FILES}
    )
    assert load_catalog(domains).worlds["shelf"].world_hash == expected


def test_a_task_hash_covers_its_public_half_and_the_world(domains: Path):
    catalog = load_catalog(domains)
    assert catalog.task("shelf/ask-dune").task_hash == content_hash(
        {
            "id": "shelf/ask-dune",
            "opening": "Who has Dune?",
            "limits": {
                "max_turns": 8,
                "max_tool_calls": 8,
                "max_turn_tokens": 512,
                "max_total_tokens": 8192,
                "max_tool_seconds": 10.0,
            },
            "tags": {"workflow": "ask", "failure_mode": "none", "split": "eval"},
            "world_hash": catalog.worlds["shelf"].world_hash,
        }
    )


@pytest.mark.parametrize("name", HASHED_FILES)
def test_any_change_of_the_world_changes_every_task_hash(domains: Path, name: str):
    before = load_catalog(domains).task("shelf/ask-dune").task_hash
    with (world(domains) / name).open("a") as file:
        file.write("\n# end\n" if name.endswith((".py", ".yaml", ".md")) else "\n-- end\n")
    assert load_catalog(domains).task("shelf/ask-dune").task_hash != before


def test_the_domain_stands_among_the_tags(domains: Path):
    assert dict(load_catalog(domains).task("shelf/ask-dune").tags) == {
        "domain": "shelf",
        "failure_mode": "none",
        "split": "eval",
        "workflow": "ask",
    }


def test_an_unknown_task_or_another_hash_is_refused(domains: Path):
    catalog = load_catalog(domains)
    with pytest.raises(UnknownTask, match="no task 'shelf/x'"):
        catalog.task("shelf/x")
    with pytest.raises(UnknownTask, match="not abc"):
        catalog.task("shelf/ask-dune", "abc")


@pytest.mark.parametrize(
    ("file", "old", "new", "where"),
    [
        ("tasks/ask-dune.yaml", "opening:", "oppening:", "ask-dune.yaml:2: .*oppening"),
        ("tasks/ask-dune.yaml", "max_turns: 8", "max_turns: 0", "ask-dune.yaml:3: .*max_turns"),
        ("tasks/ask-dune.yaml", "max_turns: 8", "max_turns: x", "ask-dune.yaml:3: .*max_turns"),
        ("tasks/ask-dune.yaml", "split: eval", "split: test", "ask-dune.yaml:4: .*split"),
        ("tasks/ask-dune.yaml", "opening: W", "opening: [", "ask-dune.yaml:"),
        ("tasks/ask-dune.yaml", "id: shelf/ask", "id: shelf/tell", "must be shelf/ask-dune"),
        ("world.yaml", "world: shelf", "world: desk", "folder is 'shelf'"),
        ("world.yaml", "09:00:00Z", "09:00:00", "world.yaml:2: .*now"),
        ("world.yaml", "description:", "describe:", "world.yaml:3: .*describe"),
    ],
)
def test_a_mistake_in_yaml_names_file_and_line(domains, file, old, new, where):
    replace(world(domains) / file, old, new)
    with pytest.raises(ConfigError, match=where):
        load_catalog(domains)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("import asyncio", "import asyncioo", "tools.py:3: ModuleNotFoundError"),
        ("async def find_book(call: Call,", "async def find_book(call,", "tool find_book"),
        ("@tool(READ)\nasync def find_book", "@tool(READ\nasync def find_book", "SyntaxError"),
    ],
)
def test_tools_that_do_not_load_name_file_and_line(domains, old, new, where):
    replace(world(domains) / "tools.py", old, new)
    with pytest.raises(BrokenWorld, match=where):
        load_catalog(domains)


def test_a_missing_file_is_named(domains: Path):
    (world(domains) / "policy.md").unlink()
    with pytest.raises(BrokenWorld, match=r"policy\.md: cannot be read"):
        load_catalog(domains)


def test_a_folder_without_worlds_says_which_setting_to_change(tmp_path: Path):
    with pytest.raises(ConfigError, match="no <domain>/world") as error:
        load_catalog(tmp_path)
    assert "ENV_SERVER_DOMAINS_DIR" in error.value.hint


def test_only_the_world_part_of_a_domain_is_read(domains: Path):
    for part in ("user", "private"):
        (domains / "shelf" / part).mkdir()
        (domains / "shelf" / part / "ask-dune.yaml").write_text("{{{ not YAML")
    assert len(load_catalog(domains).tasks) == 2
