"""Arguments that the shuffle test makes up for a tool."""

from pathlib import Path
from typing import Any, Literal, cast

from env_server.evidence import Snapshot, Table, TableRows
from env_server.shuffle import guesses
from env_server.template import Template
from env_server.toolkit import READ, Call, build_tool


def template() -> Template:
    table = Table("cups", ("cup_id", "size"), ("cup_id",), frozenset())
    rows = tuple(f'{{"cup_id":"C-{n}","size":{n}}}' for n in range(1, 6))
    initial = Snapshot({"cups": TableRows(table, rows, rows, "h")}, "s")
    return Template(cast(Any, Path("world")), "db", (table,), initial, cast(Any, None), "")


async def find(call: Call, cup_id: str, size: int, kind: Literal["a", "b"] = "a") -> dict:
    """Find cups."""
    return {}


async def blind(call: Call, things: list[int]) -> dict:
    """Needs what nobody can guess."""
    return {}


def test_required_arguments_take_the_values_of_columns_of_their_name():
    made = list(guesses(build_tool(READ, find), template()))
    assert made[0] == {"cup_id": "C-1", "size": 1}
    assert {arguments["cup_id"] for arguments in made} >= {"C-1", "C-5", "", "%"}
    assert {arguments["size"] for arguments in made} == {1, 2, 3, 4, 5}
    assert {arguments.get("kind") for arguments in made} == {None, "a", "b"}


def test_a_tool_whose_arguments_cannot_be_guessed_gets_none():
    assert list(guesses(build_tool(READ, blind), template())) == []
