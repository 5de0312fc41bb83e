"""What a test function of a ThinkingBox dataset is called with, inside the sandbox: the context object,
messages and judge of the documented contract, under the module names that such tests import.

Standard library only. The judge knows the answers that it was given; a question without one ends the
run, and the grader asks it and runs the test again.
"""

import json
import sys
from types import ModuleType
from typing import Any

NO_SESSION = "00000000-0000-0000-0000-000000000000"
MAX_TEXT_BYTES = 40_000
"""Of a question and the text it is about, together, as JSON."""
END_TURN = "is_end_turn_tool"
_VISIBLE = ("user", "assistant")


class Unanswered(BaseException):
    """The judge was asked something that it does not know; no test's `except Exception` sees it."""


class NotGiven(Exception):
    """The test looks at something that the caller did not send."""


class Message:
    def __init__(self, told: dict[str, Any]):
        self.T: str = told["T"]
        self.metadata: dict[str, Any] = told.get("metadata") or {}


class Text(Message):
    def __init__(self, told: dict[str, Any]):
        super().__init__(told)
        self.role: str = told["role"]
        self.content: str = told["content"]

    @property
    def tag(self) -> str:
        return self.metadata.get("tag", "text")

    @property
    def is_visible(self) -> bool:
        return self.tag != "think"


class ToolCall(Message):
    def __init__(self, told: dict[str, Any]):
        super().__init__(told)
        self.name: str = told["name"]
        self.arguments: dict[str, Any] = told["arguments"]
        self.id: str = told["id"]


class ParallelToolCall(Message):
    def __init__(self, told: dict[str, Any]):
        super().__init__(told)
        self.tool_calls = [ToolCall(call) for call in told["tool_calls"]]


class ToolResponse(Message):
    def __init__(self, told: dict[str, Any]):
        super().__init__(told)
        self.name: str = told["name"]
        self.content: str = told["content"]
        self.id: str = told["id"]


class ToolCallResponse:
    def __init__(self, call: ToolCall, response: ToolResponse):
        self.tool_call = call
        self.tool_response = response


def _unmade(call: ToolCall) -> ToolCallResponse:
    answer = {"T": "ToolResponse", "name": call.name, "content": "", "id": call.id}
    return ToolCallResponse(call, ToolResponse(answer))


_KINDS = {kind.__name__: kind for kind in (Text, ToolCall, ParallelToolCall, ToolResponse)}


class TestContext:
    """Of one attempt, as a test may look at it."""

    __test__ = False

    def __init__(self, told: dict[str, Any]):
        self.response: str = told["response"]
        self.effects: dict[str, Any] = told["effects"]
        self.metadata: dict[str, Any] = {}
        self.session_id = NO_SESSION
        self._messages: list[Any] | None = None
        if told["messages"] is not None:
            self._messages = [_KINDS[message["T"]](message) for message in told["messages"]]

    @property
    def messages(self) -> list[Any]:
        if self._messages is None:
            raise NotGiven("the test looks at the conversation, which was not sent")
        return self._messages

    @property
    def init_result(self) -> dict[str, Any]:
        raise NotGiven("the test looks at what the servers' init answered, which is not kept")

    @property
    def tool_direct_responses(self) -> list[str]:
        return [m.content for m in self.messages if isinstance(m, Text) and m.tag == "direct"]

    @property
    def tool_calls(self) -> list[ToolCallResponse]:
        calls: dict[str, ToolCall] = {}
        found = []
        for message in self.messages:
            if isinstance(message, ToolCall):
                calls[message.id] = message
            elif isinstance(message, ParallelToolCall):
                calls.update({call.id: call for call in message.tool_calls})
                # A call that ended the conversation was never made, and counts with an empty answer.
                found += [_unmade(c) for c in message.tool_calls if c.metadata.get(END_TURN)]
            elif isinstance(message, ToolResponse) and message.id in calls:
                found.append(ToolCallResponse(calls[message.id], message))
        return found

    def transcript(self, limit: int = 0) -> str:
        """Visible texts; with a limit the tail that holds as many messages of the assistant."""
        if limit < 0:
            raise ValueError("limit must be >= 0")
        lines: list[str] = []
        spoken = 0
        for message in reversed(self._visible()):
            lines.append(f"{message.role.capitalize()}: {message.content}")
            spoken += message.role == "assistant"
            if limit and spoken >= limit:
                break
        return "\n\n".join(reversed(lines))

    def query(self) -> str:
        for message in self._visible():
            if message.role == "user":
                return message.content
        raise ValueError("there is no message of a user")

    def _visible(self) -> list[Text]:
        return [
            message
            for message in self.messages
            if isinstance(message, Text)
            and message.role in _VISIBLE
            and message.is_visible
            and not message.metadata.get("is_dummy")
        ]


class Judge:
    """Answers from `answers`: what was asked, as JSON → yes or no."""

    judge_type = "legacy"

    def __init__(self, answers: dict[str, bool]):
        self._answers = answers
        self.pending = ""
        """What must be asked before the test can go on."""
        self.asked = 0
        self.too_long = 0
        """Bytes of a question that no judge is shown; 0 when there was none."""

    def text_yesno(self, text: str, question: str) -> bool:
        return self._ask(method="text_yesno", text=text, question=question)

    def text_yesno_legacy(self, text: str, question: str) -> bool:
        return self.text_yesno(text, question)

    def text_yesno_with_motivation(self, text: str, question: str) -> dict[str, Any]:
        return {"answer": self.text_yesno(text, question), "motivation": ""}

    def compare_yesno(self, first: str, second: str, question: str) -> bool:
        return self._ask(method="compare_yesno", first=first, second=second, question=question)

    def yesno(self, question: str) -> bool:
        return self._ask(method="yesno", question=question)

    def no_repeat(self, first: str, second_list: list[str]) -> bool:
        return not any(
            self._ask(method="repeats", first=first, second=second) for second in second_list
        )

    def evaluate_bool(self, system: str, user: str) -> bool:
        return self._ask(method="evaluate_bool", system=system, user=user)

    def drain_decisions(self) -> list[dict[str, Any]]:
        return []

    def _ask(self, **asked: str) -> bool:
        if not all(isinstance(value, str) for value in asked.values()):
            raise TypeError("a judge is asked with texts")
        key = json.dumps(asked, sort_keys=True)
        self.asked += 1
        if key in self._answers:
            return self._answers[key]
        self.pending = key
        if len(key) > MAX_TEXT_BYTES:
            self.too_long = len(key)
        raise Unanswered


def offer_modules() -> None:
    """Let the usual imports of such tests find the classes above."""
    names = {
        "thinkingbox": (),
        "thinkingbox.common": (Judge, TestContext),
        "thinkingbox.common.judge": (Judge,),
        "thinkingbox.common.chat_types": (
            *(Message, Text, ToolCall, ParallelToolCall, ToolResponse),
            *(ToolCallResponse, TestContext),
        ),
    }
    for name, offered in names.items():
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = []
        for item in offered:
            setattr(module, item.__name__, item)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)
