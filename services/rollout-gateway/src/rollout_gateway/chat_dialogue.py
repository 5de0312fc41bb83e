"""One attempt's conversation with a chat endpoint: messages in, a message out.

The endpoint renders, tokenises and reads tool calls itself; what it counts is all that is known of
tokens. A context that grew over the endpoint's own limit ends the attempt as the task's limit does.
"""

import json
from collections.abc import Sequence
from typing import Any

from envfarm.canonical import content_hash
from envfarm.errors import PromptTooLong
from envfarm.v1 import task_pb2, trajectory_pb2

from rollout_gateway.chat.calls import MalformedCall, ToolCall
from rollout_gateway.chat.formats import ToolLine
from rollout_gateway.chat.parse import Reply
from rollout_gateway.chat_endpoint import Answer, ChatEndpoint
from rollout_gateway.dialogue import Place, Said

INTERFACE = "chat"
RENDERER_HASH = content_hash({"interface": INTERFACE, "revision": 1})
"""Of how a conversation becomes messages; how those become a prompt is the endpoint's."""
NOWHERE = (0, 0)


class ChatDialogue:
    def __init__(self, endpoint: ChatEndpoint, task: task_pb2.Task, tools: Sequence[ToolLine]):
        self._endpoint, self._limits, self._task = endpoint, task.limits, task
        self._tools = [_tool(tool) for tool in tools]
        self._messages: list[dict[str, Any]] = []
        self._calls: list[str] = []
        """Ids of the calls of the last turn."""
        self._context = 0
        """Tokens of prompt and answer, as of the last answer."""
        self.prompt_tokens = self.sampled_tokens = 0

    def begin(self, policy_text: str, opening: str) -> tuple[Place, Place]:
        self._messages += [_message("system", policy_text.strip()), _message("user", opening)]
        return NOWHERE, NOWHERE

    def user(self, text: str) -> Place | None:
        return self._give([_message("user", text)])

    def tool_results(self, contents: Sequence[str]) -> Place | None:
        return self._give(
            [
                _message("tool", content) | {"tool_call_id": call}
                for call, content in zip(self._calls, contents, strict=True)
            ]
        )

    def told(self, text: str) -> None:
        """What the user was told on the model's behalf."""
        self._messages.append(_message("assistant", text))

    async def generate(self, number: int) -> Said:
        room = min(self._limits.max_turn_tokens, self._room())
        try:
            answer = await self._endpoint.say(self._messages, self._tools, room)
        except PromptTooLong:
            if number == 0:
                raise
            # The conversation has outgrown the endpoint: the policy used its tokens up.
            empty = Reply(reasoning="", text="", calls=())
            return Said(reply=empty, cut=True, place=NOWHERE, tokens=0)
        self.prompt_tokens += answer.prompt_tokens
        self.sampled_tokens += answer.sampled_tokens
        self._context = answer.prompt_tokens + answer.sampled_tokens
        self._calls = [f"call_{number}_{index}" for index in range(len(answer.reply.calls))]
        self._messages.append(self._spoken(answer))
        return Said(reply=answer.reply, cut=answer.cut, place=NOWHERE, tokens=answer.sampled_tokens)

    def write_to(self, trajectory: trajectory_pb2.Trajectory) -> None:
        trajectory.renderer_hash = RENDERER_HASH
        trajectory.sampling_hash = self._endpoint.sampling_hash
        trajectory.interface = INTERFACE
        trajectory.model = self._endpoint.model
        trajectory.prompt_tokens = self.prompt_tokens
        trajectory.sampled_tokens = self.sampled_tokens

    def _spoken(self, answer: Answer) -> dict[str, Any]:
        """The turn as later requests repeat it; reasoning is not given back."""
        said: dict[str, Any] = {"role": "assistant", "content": answer.reply.text}
        if answer.reply.calls:
            said["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": call.name or "unnamed", "arguments": _arguments(call)},
                }
                for name, call in zip(self._calls, answer.reply.calls, strict=True)
            ]
        return said

    def _give(self, messages: list[dict[str, Any]]) -> Place | None:
        if self._room() < 1:
            return None
        self._messages += messages
        return NOWHERE

    def _room(self) -> int:
        """Tokens that may be sampled now, as far as the endpoint has counted."""
        return self._limits.max_total_tokens - self._context


def _tool(tool: ToolLine) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.input_schema_json),
        },
    }


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def _arguments(call: ToolCall | MalformedCall) -> str:
    """Endpoints refuse a history whose arguments are not JSON; the result tells what was wrong."""
    return call.arguments_json if isinstance(call, ToolCall) else "{}"
