"""A conversation in the message form of ThinkingBox datasets, from turns as `conversation.py` tells them."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

DONE = "<DONE>"
Message = dict[str, Any]
Turn = Mapping[str, Any]


def is_done(text: str) -> bool:
    """Whether an agent's text says that the conversation is over."""
    return text.strip().endswith(DONE)


def messages(
    turns: Iterable[Turn], end_turn: Collection[str], direct: Mapping[str, str]
) -> list[Message]:
    """Every message in order; `end_turn` names tools that end the conversation, `direct` those whose
    result is told to the user at once, with the format of what is told."""
    found: list[Message] = []
    for number, turn in enumerate(turns):
        match turn["kind"]:
            case "system" | "user":
                found.append(text(turn["kind"], turn["text"]))
            case "assistant":
                found += _spoken(number, turn, end_turn, direct)
            case _:
                pass  # The results of calls stand with the calls.
    return found


def text(role: str, content: str, **metadata: Any) -> Message:
    return {"T": "Text", "role": role, "content": content, "metadata": metadata}


def told_directly(pattern: str, content: str) -> str | None:
    """What the user is told of a tool's answer; None when the answer does not fit the format."""
    try:
        return pattern.format(**json.loads(content))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return None


def _spoken(
    number: int, turn: Turn, end_turn: Collection[str], direct: Mapping[str, str]
) -> list[Message]:
    calls = turn.get("calls") or []
    found: list[Message] = []
    if turn.get("reasoning"):
        found.append(text("assistant", turn["reasoning"], tag="think"))
    if turn["text"] or not calls:
        done = {"is_done": True} if is_done(turn["text"]) else {}
        found.append(text("assistant", turn["text"], tag="text", **done))
    if not calls:
        return found
    asked = [_call(f"call_{number}_{i}", call, end_turn) for i, call in enumerate(calls)]
    ends = any(call["metadata"].get("is_end_turn_tool") for call in asked)
    end_mark = {"is_end_turn_tool": True} if ends else {}
    found.append({"T": "ParallelToolCall", "tool_calls": asked, "metadata": end_mark})
    if ends:
        return found
    said: str | None = None
    for call, made in zip(asked, calls, strict=True):
        found.append(
            {
                "T": "ToolResponse",
                "name": call["name"],
                "content": made["content"],
                "id": call["id"],
                "metadata": {},
            }
        )
        pattern = direct.get(call["name"])
        said = None if pattern is None else told_directly(pattern, made["content"])
    # Of several results only the last is told, as it is there.
    return found if said is None else [*found, text("assistant", said, tag="direct")]


def _call(name: str, call: Mapping[str, Any], end_turn: Collection[str]) -> Message:
    metadata: dict[str, Any] = {"is_end_turn_tool": True} if call["name"] in end_turn else {}
    try:
        arguments = json.loads(call["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments, metadata = {}, {**metadata, "error": call["content"]}
    return {
        "T": "ToolCall",
        "name": call["name"],
        "arguments": arguments,
        "id": name,
        "metadata": metadata,
    }
