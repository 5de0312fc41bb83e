"""What the model's text means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_gateway.chat.calls import MalformedCall, ToolCall
from rollout_gateway.chat.parse import Reply, parse


def call(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def only(text: str) -> ToolCall | MalformedCall:
    (found,) = parse(text).calls
    return found


def problem(text: str) -> str:
    found = only(text)
    assert isinstance(found, MalformedCall)
    return found.problem


def test_plain_text_is_for_the_user():
    assert parse("  Good day.\n") == Reply(reasoning="", text="Good day.", calls=())


def test_an_empty_turn_is_empty():
    assert parse("") == Reply(reasoning="", text="", calls=())


def test_a_call_is_read_with_canonical_arguments():
    found = only(call('\n{"name": "get_order", "arguments": {"b": 1, "a": "x"}}\n'))
    assert found == ToolCall(name="get_order", arguments_json='{"a":"x","b":1}')


def test_text_around_calls_is_kept():
    body = call('{"name": "t", "arguments": {}}')
    reply = parse(f"One moment. {body} And {body} done.")
    assert reply.text == "One moment.\nAnd\ndone."
    assert len(reply.calls) == 2


def test_calls_keep_their_order():
    reply = parse(call('{"name": "a"}') + call("nonsense") + call('{"name": "b"}'))
    assert [c.name for c in reply.calls] == ["a", "", "b"]


def test_missing_arguments_are_none_given():
    assert only(call('{"name": "list"}')) == ToolCall(name="list", arguments_json="{}")


def test_a_name_is_trimmed():
    assert only(call('{"name": " list "}')).name == "list"


def test_unicode_arguments_stay_readable():
    found = only(call('{"name": "t", "arguments": {"city": "Malm\\u00f6"}}'))
    assert found == ToolCall(name="t", arguments_json='{"city":"Malmö"}')


def test_whole_numbers_and_decimals_are_kept():
    found = only(call('{"name": "t", "arguments": {"a": 34.90, "n": 7}}'))
    assert found == ToolCall(name="t", arguments_json='{"a":34.9,"n":7}')


def test_a_thought_is_not_for_the_user():
    reply = parse("<think>\nLate order.\n</think>\nSorry.")
    assert (reply.reasoning, reply.text) == ("Late order.", "Sorry.")


def test_a_thought_whose_opening_was_given_is_a_thought():
    reply = parse("Late order.</think>Sorry.")
    assert (reply.reasoning, reply.text) == ("Late order.", "Sorry.")


def test_an_unclosed_thought_is_all_thought():
    reply = parse("<think>I will call " + call('{"name": "t"}'))
    assert reply.reasoning.startswith("I will call")
    assert (reply.text, reply.calls_in_reasoning) == ("", 1)
    # Nothing else was said: the model is told instead of the conversation ending.
    (told,) = reply.calls
    assert isinstance(told, MalformedCall) and "inside the reasoning" in told.problem


def test_calls_inside_a_thought_are_not_made():
    reply = parse("<think>" + call('{"name": "t"}') + "</think>Hello")
    assert (reply.calls, reply.calls_in_reasoning, reply.text) == ((), 1, "Hello")


def test_a_later_thought_is_text():
    assert parse("Hello <think>x</think>").text == "Hello <think>x</think>"


def test_an_unclosed_call_is_told():
    assert problem('<tool_call>{"name": "t"}') == "The tool call has no </tool_call>."


def test_a_lone_closing_mark_is_text():
    assert parse("Hello </tool_call>") == Reply(reasoning="", text="Hello </tool_call>", calls=())


def test_a_call_within_a_call_is_malformed():
    assert "not valid JSON" in problem("<tool_call>" + call('{"name": "t"}'))


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("", "not valid JSON"),
        ("get_order(1)", "not valid JSON"),
        ('{"name": "t", }', "not valid JSON"),
        ("{'name': 't'}", "not valid JSON"),
        ('{"name": "t"} {"name": "u"}', "not valid JSON"),
        ('```json\n{"name": "t"}\n```', "not valid JSON"),
        ('{"name": "t", "arguments": {"x": NaN}}', "not valid JSON: NaN is not JSON"),
        ('{"name": "t", "arguments": {"x": -Infinity}}', "not valid JSON"),
        ('{"name": "t", "arguments": {"x": 1e999}}', "not finite"),
        ('["t"]', "must be a JSON object"),
        ('"t"', "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"arguments": {}}', 'needs a "name"'),
        ('{"name": 7}', 'needs a "name"'),
        ('{"name": "  "}', 'needs a "name"'),
        ('{"name": "t", "arguments": []}', "must be a JSON object"),
        ('{"name": "t", "arguments": "{}"}', "must be a JSON object"),
        ('{"name": "t", "arguments": null}', "must be a JSON object"),
        ('{"name": "t", "parameters": {}}', "not: parameters"),
        ('{"name": "t", "arguments": {"x": "\\ud800"}}', "surrogate"),
        ('{"name": "\\udfff", "arguments": {}}', "surrogate"),
        ('{"name": "t", "arguments": {"x": ' + "9" * 5000 + "}}", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"name": "t", "arguments": {"x": ' + "[" * 70 + "]" * 70 + "}}", "nested too deeply"),
    ],
)
def test_a_malformed_call_gets_a_sentence(body: str, part: str):
    assert part in problem(call(body))


def test_a_malformed_call_keeps_what_was_written():
    found = only(call('{"name": "t", "arguments": []}'))
    assert isinstance(found, MalformedCall)
    assert (found.name, found.raw) == ("t", '{"name": "t", "arguments": []}')


PIECES = ["<tool_call>", "</tool_call>", "<think>", "</think>", '{"name": "t"}', "\ud800", "x", " "]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_text_makes_it_raise_and_every_piece_can_be_recorded(pieces: list[str]):
    reply = parse("".join(pieces).encode(errors="replace").decode())
    for part in (reply.text, reply.reasoning):
        part.encode()
    for found in reply.calls:
        if isinstance(found, ToolCall):
            assert isinstance(json.loads(found.arguments_json), dict)
        else:
            (found.name + found.raw + found.problem).encode()
