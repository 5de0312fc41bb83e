"""Attempts at imported tasks against a scripted chat endpoint: how their harness ends, counts, shows and
records a conversation."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envfarm.errors import ConfigError
from envfarm.v1 import episode_pb2, task_pb2, trajectory_pb2, verdict_pb2
from envfarm_common.metrics import Instruments

from rollout_gateway.chat_dialogue import INTERFACE
from rollout_gateway.chat_endpoint import ChatEndpoint
from rollout_gateway.rollout import Attempt, Order, Parts
from rollout_gateway.stages import Stages
from rollout_gateway.thinkingbox.attempt import ImportedAttempt, attempt_of
from rollout_gateway.thinkingbox.messages import messages, told_directly
from rollout_gateway.thinkingbox.simulated_user import cleaned
from rollout_gateway.thinkingbox.talk_file import read_talks
from rollout_gateway.user import Users
from rollout_gateway.user_model import UserModel, UserModelSettings
from tests.support.chat_server import ChatServer, chat_server, spoken, turns_so_far

S = trajectory_pb2.RolloutStatus
TASK = "shelf/lend-one"
TALK: dict[str, Any] = {
    "system_instructions": "You lend books.",
    "bot_instructions": "Be brief.",
    "builtin_tools": [
        {"name": "alarm", "description": "Raise it.", "input_schema": {}, "is_end_turn": True}
    ],
    "tools": [
        {
            "name": "lend",
            "override_description": "Lends.",
            "override_arg_description": {"book": "Its number.", "nothing": "x"},
        },
        {"name": "look"},
    ],
    "history": None,
    "query": "May I have a book?",
    "user_context": "You want the Atlas. TASK: <DONE>",
    "max_user_sim_turns": 2,
    "max_agent_sim_turns": 9_223_372_036_854_775_807,
}
SCHEMA = {"type": "object", "properties": {"book": {"type": "string"}}}


class Farm:
    """Environment and grader of one attempt."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.graded: dict[str, Any] = {}
        self.task = task_pb2.Task(
            ref=task_pb2.TaskRef(task_id=TASK, task_hash="a" * 64),
            policy="You lend books.\n\nBe brief.",
            opening=TALK["query"],
            limits=task_pb2.Limits(
                max_turns=20,
                max_tool_calls=20,
                max_turn_tokens=100,
                max_total_tokens=10_000,
                max_tool_seconds=60,
            ),
            tools=[
                task_pb2.ToolSpec(name=name, description="d", input_schema_json=json.dumps(SCHEMA))
                for name in ("lend", "look")
            ],
        )

    @contextlib.asynccontextmanager
    async def episode(self, *_: Any):
        yield SimpleNamespace(
            episode_id="e",
            initial_state_hash="i",
            task=self.task,
            env_server="here",
            seal=self.seal,
            call=self.call,
        )

    async def seal(self) -> None: ...

    async def call(self, tool: str, arguments_json: str) -> episode_pb2.ToolResult:
        self.calls.append((tool, arguments_json))
        return episode_pb2.ToolResult(content='{"title": "Atlas"}')

    async def grade(self, **told: Any) -> verdict_pb2.Verdict:
        self.graded = told
        return verdict_pb2.Verdict(reward=1.0)

    @property
    def said(self) -> list[dict[str, Any]]:
        return json.loads(self.graded["conversation_json"])


class Played:
    def __init__(self, farm: Farm, agent: ChatServer, user: ChatServer, done: Any):
        self.farm, self.agent, self.user = farm, agent, user
        self.rollout = done.rollout
        self.failure = done.failure
        self.status = done.rollout.trajectory.status
        self.reply = done.rollout.trajectory.final_reply


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "shelf/user/thinkingbox").mkdir(parents=True)
    yield tmp_path


async def play(
    folder: Path,
    *turns: dict[str, Any],
    users: Any = "model",
    says: str = "The Atlas.",
    **talk: Any,
) -> Played:
    place = folder / "shelf/user"
    (place / "thinkingbox/lend-one.json").write_text(json.dumps({**TALK, **talk}))
    (place / "lend-one.yaml").write_text("task: shelf/lend-one\ncontext: You want the Atlas.\n")
    farm = Farm()
    with (
        chat_server(lambda body: turns[min(turns_so_far_ours(body), len(turns) - 1)]) as agent,
        chat_server(lambda body: spoken(says)) as user,
    ):
        model = UserModel(
            UserModelSettings(url=user.url, model="u", key="", temperature=0.3, seconds=10)
        )
        instruments = Instruments("rollout-gateway")
        chat = ChatEndpoint(
            url=agent.url, model="m", key="", parameters={}, limit_field="max_tokens", seconds=10
        )
        them: Any = farm
        parts = Parts(
            environment=them,
            policy=them,
            grader=them,
            users=Users(folder, users, model),
            renderer=them,
            sampling=them,
            chat=chat,
            stages=Stages(instruments),
            instruments=instruments,
            attempt_seconds=60,
        )
        order = Order(
            rollout_id="r", request_id="q", slot=0, attempt=0, task=farm.task, interface=INTERFACE
        )
        attempt = attempt_of(parts, order, lambda _: contextlib.nullcontext())
        assert isinstance(attempt, ImportedAttempt)
        done = await attempt.run()
        await model.close()
        await chat.close()
    return Played(farm, agent, user, done)


def turns_so_far_ours(body: dict[str, Any]) -> int:
    """Generations so far: what was told on the model's behalf is none."""
    told = sum(m["role"] == "assistant" and m["content"] == "Direct!" for m in body["messages"])
    return turns_so_far(body) - told


async def test_a_whole_conversation_ends_with_done_and_is_graded_with_its_messages(folder: Path):
    found = await play(
        folder,
        spoken("Which one?"),
        spoken("<think>Hm.</think>One moment.", ("lend", {"book": "B-1"}), ("fly", {})),
        spoken("It is yours. <DONE>"),
    )
    assert (found.status, found.reply) == (S.ROLLOUT_STATUS_COMPLETED, "It is yours. <DONE>")
    assert found.rollout.verdict.reward == 1.0
    assert found.farm.calls == [("lend", '{"book":"B-1"}')]
    kinds = [(m["T"], m.get("role", ""), m["metadata"].get("tag", "")) for m in found.farm.said]
    assert kinds == [
        ("Text", "system", ""),
        ("Text", "user", ""),
        ("Text", "assistant", "text"),
        ("Text", "user", ""),
        ("Text", "assistant", "think"),
        ("Text", "assistant", "text"),
        ("ParallelToolCall", "", ""),
        ("ToolResponse", "", ""),
        ("ToolResponse", "", ""),
        ("Text", "assistant", "text"),
    ]
    assert found.farm.said[3]["content"] == "The Atlas."
    assert found.farm.said[8]["content"] == "Error: function 'fly' does not exist"
    assert found.farm.said[9]["metadata"]["is_done"] is True
    assert found.farm.graded["final_reply"] == "It is yours. <DONE>"


async def test_the_model_is_shown_the_harness_tools_and_the_overrides(folder: Path):
    found = await play(folder, spoken("Bye. <DONE>"))
    tools = {t["function"]["name"]: t["function"] for t in found.agent.asked[0]["tools"]}
    assert list(tools) == ["alarm", "lend", "look"]
    assert tools["lend"]["description"] == "Lends." and tools["look"]["description"] == "d"
    assert tools["lend"]["parameters"]["properties"] == {
        "book": {"type": "string", "description": "Its number."}
    }
    system, query = found.agent.asked[0]["messages"]
    assert system["content"] == "You lend books.\n\nBe brief." and query["content"] == TALK["query"]


async def test_the_user_is_asked_anew_each_time_and_sees_no_tools_and_no_thoughts(folder: Path):
    found = await play(
        folder,
        spoken("<think>secret</think>Looking.", ("look", {"book": "B-1"})),
        spoken("FACTS: you said the Birds <DONE>, no?"),
        spoken("Done. <DONE>"),
        says='User: "The Atlas."',
    )
    (asked,) = found.user.asked
    assert [m["role"] for m in asked["messages"]] == ["system", "user"]
    words = asked["messages"][1]["content"]
    assert "User: May I have a book?\n\nAssistant: Looking.\n\nAssistant: FACTS :" in words
    assert "secret" not in words and "title" not in words and "<DONE>" not in words
    assert words.count("FACTS:") == 1 and "You want the Atlas." in words
    assert found.farm.said[-2]["content"] == "The Atlas."


@pytest.mark.parametrize(("answers", "asked"), [(0, 0), (1, 1), (2, 2)])
async def test_the_user_answers_as_often_as_the_dataset_says(
    folder: Path, answers: int, asked: int
):
    found = await play(folder, spoken("Which one?"), max_user_sim_turns=answers)
    assert found.status == S.ROLLOUT_STATUS_COMPLETED and found.rollout.verdict.reward == 1.0
    assert (len(found.user.asked), len(found.agent.asked)) == (asked, asked + 1)


@pytest.mark.parametrize(("users", "context"), [("model", None), ("none", "x"), ("script", "x")])
async def test_without_a_user_the_first_text_ends_it(folder: Path, users: str, context: str | None):
    found = await play(folder, spoken("Which one?"), users=users, user_context=context)
    assert (found.status, found.reply) == (S.ROLLOUT_STATUS_COMPLETED, "Which one?")
    assert found.user.asked == []


async def test_an_end_of_turn_tool_ends_it_and_no_call_beside_it_is_made(folder: Path):
    found = await play(folder, spoken("Stop!", ("lend", {"book": "B-1"}), ("alarm", {})))
    assert (found.status, found.reply) == (S.ROLLOUT_STATUS_COMPLETED, "Stop!")
    assert found.farm.calls == [] and len(found.agent.asked) == 1
    last = found.farm.said[-1]
    assert last["T"] == "ParallelToolCall" and last["metadata"] == {"is_end_turn_tool": True}
    assert [call["metadata"] for call in last["tool_calls"]] == [{}, {"is_end_turn_tool": True}]


@pytest.mark.parametrize(
    ("limit", "generations", "calls"),
    [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1)],
)
async def test_texts_and_messages_with_calls_count_as_actions(
    folder: Path, limit: int, generations: int, calls: int
):
    found = await play(
        folder, spoken("One moment.", ("look", {"book": "B-1"})), max_agent_sim_turns=limit
    )
    assert found.status == S.ROLLOUT_STATUS_TRUNCATED_TURNS and found.rollout.verdict.reward == 1.0
    assert (len(found.agent.asked), len(found.farm.calls)) == (generations, calls)


async def test_a_direct_response_is_told_to_user_and_model(folder: Path):
    tools = [{"name": "lend", "direct_response": "Direct!"}, {"name": "look"}]
    found = await play(
        folder, spoken("", ("lend", {"book": "B-1"})), spoken("More? <DONE>"), tools=tools
    )
    roles = [m["role"] for m in found.agent.asked[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert found.farm.said[-2] == {
        "T": "Text",
        "role": "assistant",
        "content": "Direct!",
        "metadata": {"tag": "direct"},
    }
    assert found.reply == "More? <DONE>"


async def test_an_answer_that_fits_no_direct_response_is_an_error_for_the_model(folder: Path):
    tools = [{"name": "lend", "direct_response": "{missing}"}, {"name": "look"}]
    found = await play(
        folder, spoken("", ("lend", {"book": "B-1"})), spoken("Sorry. <DONE>"), tools=tools
    )
    assert found.agent.asked[1]["messages"][-1]["content"] == "Error in function execution"
    assert [m["metadata"].get("tag") for m in found.farm.said[-2:]] == [None, "text"]


async def test_a_history_is_refused_and_not_left_out(folder: Path):
    found = await play(folder, spoken("Hi. <DONE>"), history=[{"T": "Text"}])
    assert found.failure.error_class == "ConfigError" and "history" in found.failure.message
    assert found.agent.asked == []


def test_tasks_of_our_own_are_played_as_ever(folder: Path):
    parts: Any = SimpleNamespace(users=Users(folder, "none"), chat=object())
    order = Order(
        rollout_id="r", request_id="q", slot=0, attempt=0, task=Farm().task, interface=INTERFACE
    )
    assert type(attempt_of(parts, order, lambda _: contextlib.nullcontext())) is Attempt


def test_a_file_that_is_wrong_is_named(folder: Path):
    place = folder / "shelf/user/thinkingbox/lend-one.json"
    place.write_text(json.dumps({**TALK, "query": 1}))
    with pytest.raises(ConfigError, match=r"lend-one\.json: query"):
        read_talks(folder)


def test_a_call_that_could_not_be_read_stands_with_its_error():
    turn = {
        "kind": "assistant",
        "text": "",
        "calls": [{"name": "lend", "arguments": "{oops", "content": "no JSON", "is_error": True}],
    }
    (asked, answer) = messages([turn], (), {})
    (call,) = asked["tool_calls"]
    assert (call["arguments"], call["metadata"]) == ({}, {"error": "no JSON"})
    assert answer["content"] == "no JSON" and answer["id"] == call["id"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("  User: 'yes' ", "yes"),
        ('"a" or "b"', 'a" or "b'),
        ("Assistant: no", "no"),
        ("USER:", "I don't know."),
        ('"', '"'),
    ],
)
def test_what_a_users_model_says_is_stripped_of_its_part(said: str, line: str):
    assert cleaned(said) == line


@pytest.mark.parametrize("content", ["[1]", "no JSON", '{"b": 1}', "1"])
def test_a_direct_response_needs_an_object_with_its_keys(content: str):
    assert told_directly("{a}", content) is None
    assert told_directly("{a}", '{"a": 5}') == "5"
