"""The conversation of the gRPC door is text that a caller wrote: what is no plain JSON is refused in
words, as the HTTP door does."""

import pytest
from envfarm.errors import InvalidArgument
from envfarm.v1 import grader_service_pb2 as pb

from grader.rpc import _ask  # pyright: ignore[reportPrivateUsage]

CALL = '[{"T":"ToolCall","name":"t","id":"i","arguments":{"a":%s}}]'


def asked(conversation: str) -> pb.GradeRequest:
    request = pb.GradeRequest(request_id="r", dsn="x", conversation_json=conversation)
    request.task.task_id, request.task.task_hash = "shop/t", "0" * 64
    return request


def test_a_call_arrives_as_it_was_sent():
    (message,) = _ask(asked(CALL % '[1,-0.5,"\\u00e9"]')).conversation or []
    assert message["arguments"] == {"a": [1, -0.5, "é"]}


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "-Infinity",
        "1e999",
        '"\\ud800"',
        '1,"a":2',
        "[" * 500 + "]" * 500,
        "[" * 90_000,
        "1" * 6000,
        "",
    ],
)
def test_what_is_no_plain_json_is_refused(value: str):
    with pytest.raises(InvalidArgument):
        _ask(asked(CALL % value))


@pytest.mark.parametrize("text", ["5", "{}", "[]]", '[],"dsn":"y"', "null,", "\ufeff[]"])
def test_a_text_that_is_no_list_of_messages_adds_no_member(text: str):
    with pytest.raises(InvalidArgument):
        _ask(asked(text))
