"""The chat endpoint as policy: what is asked, what an answer means, and what each failure is."""

from typing import Any

import pytest
from envfarm.errors import EndpointBusy, EndpointRefused, EngineError, PromptTooLong
from envfarm.v1 import task_pb2, trajectory_pb2

from rollout_gateway import chat_endpoint
from rollout_gateway.chat.calls import MalformedCall, ToolCall
from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat_dialogue import ChatDialogue
from rollout_gateway.chat_endpoint import TRIES, ChatEndpoint
from tests.support.chat_server import chat_server, spoken, turns_so_far

FIND = ToolLine(name="find_order", description="Finds one.", input_schema_json='{"type": "object"}')


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_endpoint, "FIRST_PAUSE_SECONDS", 0.0)


def endpoint(url: str, **changes: Any) -> ChatEndpoint:
    values: dict[str, Any] = {
        "url": url,
        "model": "other",
        "key": "secret",
        "parameters": {"temperature": 0.5},
        "limit_field": "max_tokens",
        "seconds": 5,
    }
    return ChatEndpoint(**{**values, **changes})


def dialogue(url: str, *, total: int = 10_000, turn: int = 500) -> ChatDialogue:
    task = task_pb2.Task(
        limits=task_pb2.Limits(max_total_tokens=total, max_turn_tokens=turn, max_turns=9)
    )
    return ChatDialogue(endpoint(url), task, [FIND])


async def test_a_conversation_with_calls_is_asked_in_the_protocols_own_words():
    answers = [
        spoken("", ("find_order", {"order_id": "O-1"}), ("find_order", "{oops"), usage=(100, 20)),
        spoken("<think>Hm.</think>Done.", usage=(150, 5)),
    ]
    with chat_server(lambda body: answers[turns_so_far(body)]) as server:
        talk = dialogue(server.url)
        talk.begin(" Be kind.\n", "Where is my order?")
        first = await talk.generate(0)
        assert talk.tool_results(["placed", "The arguments are not valid JSON."]) is not None
        second = await talk.generate(1)
    good, bad = first.reply.calls
    assert good == ToolCall(name="find_order", arguments_json='{"order_id":"O-1"}')
    assert isinstance(bad, MalformedCall) and "not valid JSON" in bad.problem
    assert (second.reply.text, second.reply.reasoning) == ("Done.", "Hm.")
    asked = server.asked[1]
    assert [m["role"] for m in asked["messages"]] == [
        *("system", "user", "assistant", "tool", "tool")
    ]
    ids = [call["id"] for call in asked["messages"][2]["tool_calls"]]
    assert [m["tool_call_id"] for m in asked["messages"][3:]] == ids and len(set(ids)) == 2
    assert asked["messages"][2]["tool_calls"][1]["function"]["arguments"] == "{}"
    assert asked["tools"][0]["function"]["parameters"] == {"type": "object"}
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("other", 0.5, 500)
    assert server.keys == {"Bearer secret"}
    record = trajectory_pb2.Trajectory()
    talk.write_to(record)
    assert (record.prompt_tokens, record.sampled_tokens) == (250, 25)
    assert (record.interface, record.model, len(record.token_ids)) == ("chat", "other", 0)


async def test_the_limits_of_the_task_hold_by_what_the_endpoint_counts():
    with chat_server(lambda body: spoken("So?", ended="length", usage=(80, 15))) as server:
        talk = dialogue(server.url, total=100, turn=500)
        talk.begin("p", "q")
        said = await talk.generate(0)
        assert said.cut and server.asked[0]["max_tokens"] == 100
        assert talk.user("And?") is not None
        await talk.generate(1)
        assert server.asked[1]["max_tokens"] == 5
        full = dialogue(server.url, total=95)
        full.begin("p", "q")
        await full.generate(0)
        assert full.user("And?") is None


@pytest.mark.parametrize(
    ("status", "error", "tries"),
    [
        (401, EndpointRefused, 1),
        (403, EndpointRefused, 1),
        (404, EndpointRefused, 1),
        (400, EndpointRefused, 1),
        (429, EndpointBusy, TRIES),
        (529, EndpointBusy, TRIES),
        (408, EngineError, TRIES),
        (500, EngineError, TRIES),
        (503, EngineError, TRIES),
    ],
)
async def test_each_refusal_has_its_class_and_only_what_may_pass_is_asked_again(
    status: int, error: type[Exception], tries: int
):
    with chat_server(lambda body: status) as server:
        with pytest.raises(error, match=f"HTTP {status}") as caught:
            await endpoint(server.url).say([], [], 5)
    assert len(server.asked) == tries
    assert "secret" not in str(caught.value)


async def test_what_passes_is_not_noticed():
    answers: list[Any] = [503, 429, spoken("Yes.")]
    with chat_server(lambda body: answers.pop(0)) as server:
        assert (await endpoint(server.url).say([], [], 5)).reply.text == "Yes."


async def test_nobody_there_is_an_engine_error():
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9"):
        await endpoint("http://127.0.0.1:9/v1").say([], [], 5)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"choices": []},
        {"choices": [{"message": {"content": "x"}}]},
        {"choices": [{"message": {"content": [1]}}], "usage": spoken("")["usage"]},
        {"choices": [{"message": None}], "usage": spoken("")["usage"]},
    ],
)
async def test_an_answer_without_message_or_usage_is_no_answer(answer: dict[str, Any]):
    with chat_server(lambda body: answer) as server:
        with pytest.raises(EngineError, match="no message"):
            await endpoint(server.url).say([], [], 5)


async def test_a_conversation_that_outgrows_the_model_is_cut_and_a_first_prompt_refused(
    monkeypatch: pytest.MonkeyPatch,
):
    async def too_long(*_: object) -> None:
        raise PromptTooLong("maximum context length is 5")

    talk = dialogue("http://127.0.0.1:9/v1")
    monkeypatch.setattr(ChatEndpoint, "say", too_long)
    with pytest.raises(PromptTooLong):
        await talk.generate(0)
    said = await talk.generate(1)
    assert said.cut and said.reply.calls == ()
