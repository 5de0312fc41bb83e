"""What world.yaml may say of servers, and the file that pins their tools."""

import json
import shutil
from pathlib import Path

import pytest
from envfarm.errors import BrokenWorld, ConfigError
from pydantic import ValidationError

from env_server.server_file import PinnedTool, ServerFile, foreign_tool, pins_text, read_pins
from env_server.toolkit import Access
from env_server.world import load_world

DEPOT = Path(__file__).parents[2] / "support" / "mounted" / "depot" / "world"


def test_what_is_not_listed_reserved_or_of_the_lifecycle_is_not_offered():
    life = {"init": "setup", "effects": "", "teardown": ""}
    named = ServerFile.model_validate({"command": ["x"], "tools": ["a"], "lifecycle": life})
    every = ServerFile.model_validate({"command": ["x"], "lifecycle": life})
    names = ("a", "b", "setup", "__reserved__init", "__reserved__server_tool")
    assert [name for name in names if named.offers(name)] == ["a"]
    assert [name for name in names if every.offers(name)] == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "either a command or a url"),
        ({"command": ["x"], "url": "http://a/mcp"}, "either a command or a url"),
        ({"url": "ftp://a"}, "url"),
        ({"url": "http://a", "dsn_variable": "DSN"}, "dsn_variable is for servers with a command"),
        ({"command": ["x"], "headers": {"a": "b"}}, "headers are for servers with a url"),
        ({"command": ["x"], "tools": ["__reserved__x"]}, "cannot be offered"),
        ({"command": ["x"], "tools": ["s"], "lifecycle": {"init": "s"}}, "cannot be offered"),
        ({"command": ["x\0"]}, "command"),
        ({"command": ["x"], "variables": {"A=B": "c"}}, "variables"),
        ({"command": ["x"], "comand": 1}, "Extra inputs"),
    ],
)
def test_a_server_that_cannot_be_is_refused(values: dict, told: str):
    with pytest.raises(ValidationError, match=told):
        ServerFile.model_validate(values)


def test_pins_survive_their_file_and_count_as_writes(tmp_path: Path):
    servers = {"s": ServerFile.model_validate({"command": ["x"]})}
    pinned = PinnedTool(name="weigh", description="Weigh.", input_schema={"type": "object"})
    path = tmp_path / "servers.json"
    path.write_text(pins_text({"s": [pinned]}))
    (found,) = read_pins(path, servers).values()
    assert found == foreign_tool("s", pinned) and found.access is Access.WRITE
    assert json.loads(found.schema_json) == {"properties": {}, "type": "object"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "holds no pinned tools"),
        ('{"servers": {"other": []}}', "is not of the servers"),
        ('{"servers": {"s": []}}', "has other tools than world.yaml offers"),
        (
            '{"servers": {"s": [{"name": "a", "description": "", "input_schema": {"type": 1}}]}}',
            "a",
        ),
    ],
)
def test_pins_that_do_not_fit_are_refused(tmp_path: Path, text: str, told: str):
    servers = {"s": ServerFile.model_validate({"command": ["x"], "tools": ["a"]})}
    path = tmp_path / "servers.json"
    path.write_text(text)
    with pytest.raises(BrokenWorld, match=told):
        read_pins(path, servers)


@pytest.mark.parametrize("name", ["", "a b", "a" * 65, "a.b", "ä"])
def test_a_name_that_no_model_endpoint_takes_is_refused(name: str):
    with pytest.raises(BrokenWorld, match="cannot be the name"):
        foreign_tool("s", PinnedTool(name=name, description="", input_schema={}))


def test_pins_and_code_of_servers_are_part_of_the_world(tmp_path: Path):
    folder = tmp_path / "depot" / "world"
    shutil.copytree(DEPOT, folder)
    first = load_world(folder)
    assert list(first.offered) == [*("label", "weigh", "tare", "show", "misbehave", "now")]
    assert load_world(DEPOT).world_hash == first.world_hash
    (folder / "servers" / "clock.py").write_text("# another\n")
    second = load_world(folder).world_hash
    pins = folder / "servers.json"
    pins.write_text(pins.read_text().replace("Tell the time.", "Tell me the time."))
    assert len({first.world_hash, second, load_world(folder).world_hash}) == 3
    pins.unlink()
    with pytest.raises(BrokenWorld, match=r"servers\.json is missing"):
        load_world(folder)
    assert not load_world(folder, is_pinned=False).foreign


def test_a_mistake_in_world_yaml_is_named_with_its_line(tmp_path: Path):
    folder = tmp_path / "depot" / "world"
    shutil.copytree(DEPOT, folder)
    path = folder / "world.yaml"
    path.write_text(path.read_text().replace("max_restarts: 1", "max_restarts: 0"))
    with pytest.raises(ConfigError, match=r"world\.yaml:15: servers\.clock\.max_restarts"):
        load_world(folder)
