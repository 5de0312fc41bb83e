"""How a Python function becomes a tool."""

import json
from typing import Literal

import pytest
from envfarm.errors import BrokenWorld

from env_server.toolkit import READ, WRITE, Access, Call, Refused, build_tool, tool


@tool(WRITE)
async def pay(
    call: Call,
    order_id: str,
    count: int,
    rate: float,
    fast: bool = False,
    kind: Literal["card", "cash"] = "card",
    tags: list[str] | None = None,
) -> dict:
    """Pay an order.

    Twice is refused.
    """
    return {}


PAY = pay.__dict__["envfarm_tool"]


def test_the_schema_comes_from_the_type_hints():
    assert json.loads(PAY.schema_json) == {
        "type": "object",
        "additionalProperties": False,
        "required": ["order_id", "count", "rate"],
        "properties": {
            "order_id": {"type": "string"},
            "count": {"type": "integer"},
            "rate": {"type": "number"},
            "fast": {"type": "boolean", "default": False},
            "kind": {"type": "string", "enum": ["card", "cash"], "default": "card"},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
    }


def test_the_docstring_is_the_description():
    assert PAY.description == "Pay an order.\n\nTwice is refused."
    assert PAY.access is Access.WRITE


def test_arguments_are_parsed_and_defaults_filled_in():
    assert PAY.parse('{"order_id": "O-1", "count": 2, "rate": 3}') == {
        "order_id": "O-1",
        "count": 2,
        "rate": 3.0,
        "fast": False,
        "kind": "card",
        "tags": None,
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"order_id": "O-1", "count": "2", "rate": 3}', "count: "),
        ('{"order_id": "O-1", "count": 2.5, "rate": 3}', "count: "),
        ('{"order_id": "O-1", "count": true, "rate": 3}', "count: "),
        ('{"order_id": 1, "count": 2, "rate": 3}', "order_id: "),
        ('{"order_id": "O-1", "count": 2}', "rate: Field required"),
        ('{"order_id": "O-1", "count": 2, "rate": 3, "kind": "gold"}', "kind: "),
        ('{"order_id": "O-1", "count": 2, "rate": 3, "call": 1}', "call: Extra"),
        ('{"order_id": "O-1", "count": 2, "rate": NaN}', "rate: Input should be a finite number"),
        ('{"order_id": "\\ud800", "count": 2, "rate": 3}', "Invalid JSON"),
        ("[1]", "object"),
        ("{", "Invalid JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(arguments: str, words: str):
    with pytest.raises(Refused, match=r"^Bad arguments for pay\. ") as refusal:
        PAY.parse(arguments)
    assert words in str(refusal.value)


def test_a_tool_without_arguments_takes_an_empty_object():
    async def ping(call: Call) -> dict:
        """Answer."""
        return {}

    made = build_tool(READ, ping)
    assert made.parse("{}") == made.parse("") == {}
    assert json.loads(made.schema_json)["properties"] == {}


async def no_docstring(call: Call, a: str) -> dict:
    return {}


async def no_hint(call: Call, a) -> dict:
    """Text."""
    return {}


async def no_call(a: str) -> dict:
    """Text."""
    return {}


async def anything_goes(call: Call, **rest: str) -> dict:
    """Text."""
    return {}


def not_async(call: Call) -> dict:
    """Text."""
    return {}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_docstring, "no docstring"),
        (no_hint, "parameter a needs a type"),
        (no_call, "first parameter must be"),
        (anything_goes, "parameter rest"),
        (not_async, "must be an async function"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_named(function, words: str):
    with pytest.raises(BrokenWorld, match=f"tool {function.__name__}: .*{words}"):
        build_tool(READ, function)
