"""Calls as function and parameter tags: what each text stands for under its schema."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_gateway.chat.calls import MalformedCall, ToolCall
from rollout_gateway.chat.calls_xml import read_xml_call, write_xml_call
from rollout_gateway.chat.parse import parse

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "sure": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "address": {"type": "object"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "reason": {"enum": ["damaged", "late"]},
        "level": {"enum": [1, 2, 3]},
        "kind": {"const": "gift"},
        "ref": {"$ref": "#/$defs/amount"},
        "loop": {"$ref": "#/$defs/loop"},
        "free": {},
    },
    "$defs": {"amount": {"type": "number"}, "loop": {"$ref": "#/$defs/loop"}},
}
SCHEMAS = {"act": SCHEMA}


def body(*parameters: tuple[str, str], name: str = "act") -> str:
    inner = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in parameters)
    return f"\n<function={name}>\n{inner}</function>\n"


def read(text: str) -> ToolCall | MalformedCall:
    return read_xml_call(text, SCHEMAS)


# name of the parameter, its text, the value that it stands for
TYPED: list[tuple[str, str, Any]] = [
    ("text", "O-1012", "O-1012"),
    ("text", "7", "7"),
    ("text", "true", "true"),
    ("text", "null", "null"),
    ("text", '{"a": 1}', '{"a": 1}'),
    ("text", "", ""),
    ("text", "  two  spaces ", "  two  spaces "),
    ("text", "line one\nline two", "line one\nline two"),
    ("text", "\nstarts with a newline", "\nstarts with a newline"),
    ("text", "a < b > c & d", "a < b > c & d"),
    ("text", "<b>bold</b>", "<b>bold</b>"),
    ("text", 'say "hi"', 'say "hi"'),
    ("text", "Malmö 東京", "Malmö 東京"),
    ("count", "7", 7),
    ("count", "-7", -7),
    ("count", " 7 ", 7),
    ("count", "7.0", 7),
    ("price", "34.9", 34.9),
    ("price", "34", 34),
    ("price", "1e3", 1000.0),
    ("sure", "true", True),
    ("sure", "false", False),
    ("sure", "True", True),
    ("sure", "False", False),
    ("lines", "[1, 2, 3]", [1, 2, 3]),
    ("lines", "[]", []),
    ("lines", "[\n  1,\n  2\n]", [1, 2]),
    ("address", '{"city": "Oslo"}', {"city": "Oslo"}),
    ("address", '{"a": {"b": [null]}}', {"a": {"b": [None]}}),
    ("note", "null", None),
    ("note", "None", None),
    ("note", "nothing", "nothing"),
    ("size", "null", None),
    ("size", "12", 12),
    ("either", "12", 12),
    ("either", "twelve", "twelve"),
    ("reason", "late", "late"),
    ("reason", "lost", "lost"),
    ("level", "2", 2),
    ("kind", "gift", "gift"),
    ("ref", "2.5", 2.5),
    ("loop", "anything", "anything"),
    ("free", "12", "12"),
    ("unknown", "12", "12"),
]


@pytest.mark.parametrize(("key", "text", "value"), TYPED)
def test_a_value_is_what_its_schema_says(key: str, text: str, value: Any):
    found = read(body((key, text)))
    assert isinstance(found, ToolCall), found
    assert json.loads(found.arguments_json) == {key: value}
    assert type(json.loads(found.arguments_json)[key]) is type(value)


MALFORMED: list[tuple[str, str]] = [
    ("", "must begin with <function=name>"),
    ("act", "must begin with <function=name>"),
    ('{"name": "act", "arguments": {}}', "must begin with <function=name>"),
    ("<function>act</function>", "must begin with <function=name>"),
    ("<function=></function>", "needs a name"),
    ("<function= ></function>", "needs a name"),
    ("<function=act>", "must end with </function>"),
    ("<function=act></function> and more", "must end with </function>"),
    ("<function=act>words</function>", "must end with </function>"),
    ("<function=act></function><function=act></function>", "must end with </function>"),
    ("<function=act>\n<parameter=text>\nx\n</function>", "text has no </parameter>"),
    ("<function=act>\n<parameter=>\nx\n</parameter>\n</function>", "needs a name"),
    (body(("text", "a"), ("text", "b")), "text is given twice"),
    (body(("count", "seven")), "count must be integer"),
    (body(("count", "7.5")), "count must be integer"),
    (body(("count", "true")), "count must be integer"),
    (body(("count", "")), "count must be integer"),
    (body(("price", "NaN")), "price must be number"),
    (body(("price", "1e999")), "not finite"),
    (body(("sure", "yes")), "sure must be boolean"),
    (body(("sure", "1")), "sure must be boolean"),
    (body(("lines", "1, 2")), "lines must be array"),
    (body(("lines", '{"a": 1}')), "lines must be array"),
    (body(("address", "Oslo")), "address must be object"),
    (body(("size", "big")), "size must be integer or null"),
    (body(("level", "9")), "level must be one of 1, 2, 3"),
    (body(("address", '{"x": ' * 70 + "1" + "}" * 70)), "nested too deeply"),
    (body(("address", "[" * 100_000)), "address must be object"),
]


@pytest.mark.parametrize(("text", "part"), MALFORMED)
def test_a_malformed_call_gets_a_sentence(text: str, part: str):
    found = read(text)
    assert isinstance(found, MalformedCall)
    assert part in found.problem


def test_a_call_without_parameters_has_none():
    assert read("<function=list></function>") == ToolCall(name="list", arguments_json="{}")


def test_the_turn_around_the_calls_is_read_as_in_the_other_format():
    turn = f"<think>\nHm.\n</think>\n\nOne moment.\n<tool_call>{body(('count', '2'))}</tool_call>"
    reply = parse(turn, SCHEMAS, read_xml_call)
    assert (reply.reasoning, reply.text) == ("Hm.", "One moment.")
    assert reply.calls == (ToolCall(name="act", arguments_json='{"count":2}'),)


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=20)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "text": PLAIN,
        "count": st.integers(-(10**12), 10**12),
        "price": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "sure": st.booleans(),
        "lines": st.lists(st.integers(-5, 5), max_size=4),
        "address": st.dictionaries(st.sampled_from(["a", "b"]), PLAIN, max_size=2),
        "size": st.none() | st.integers(0, 9),
        "reason": st.sampled_from(["damaged", "late"]),
        "level": st.sampled_from([1, 2, 3]),
    },
)


@given(VALUES)
def test_what_is_written_is_read_back(arguments: dict[str, Any]):
    text = write_xml_call("act", arguments)
    (found,) = parse(text, SCHEMAS, read_xml_call).calls
    assert isinstance(found, ToolCall)
    assert json.loads(found.arguments_json) == arguments


PIECES = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<function=act>", "<function=", ">", "</function>", "\n", "7",
     "<parameter=count>", "<parameter=text>", "</parameter>", "<think>", "</think>", "\ud800", "x"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=20))
def test_no_text_makes_it_raise(pieces: list[str]):
    reply = parse("".join(pieces).encode(errors="replace").decode(), SCHEMAS, read_xml_call)
    for found in reply.calls:
        if isinstance(found, ToolCall):
            assert isinstance(json.loads(found.arguments_json), dict)
        else:
            (found.name + found.raw + found.problem).encode()
