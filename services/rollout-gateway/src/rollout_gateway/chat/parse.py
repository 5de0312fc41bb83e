"""A model turn's text → reasoning, text for the user, tool calls. Pure, and it never raises.

    <think>reasoning</think> text <tool_call>{"name": "find_order", "arguments": {…}}</tool_call>

What is wrong with a call becomes a sentence for the model (MalformedCall), not an error: a rollout
does not die of the model's typing.
"""

import json
from dataclasses import dataclass
from typing import Any

from envfarm.canonical import canonical_json

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
MAX_DEPTH = 64
"""Deepest nesting of arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    name: str
    arguments_json: str
    """Canonical JSON object."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MalformedCall:
    name: str
    """As far as it could be read; else empty."""
    raw: str
    problem: str
    """One sentence for the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    reasoning: str
    text: str
    calls: tuple[ToolCall | MalformedCall, ...]


def parse(turn: str) -> Reply:
    reasoning, rest = _split_reasoning(turn)
    texts: list[str] = []
    calls: list[ToolCall | MalformedCall] = []
    while True:
        before, opened, rest = rest.partition(CALL_OPEN)
        texts.append(before)
        if not opened:
            break
        body, closed, rest = rest.partition(CALL_CLOSE)
        if closed:
            calls.append(_call(body))
        else:
            calls.append(_malformed(body, f"The tool call has no {CALL_CLOSE}."))
    text = "\n".join(part for part in (piece.strip() for piece in texts) if part)
    return Reply(reasoning=reasoning, text=text, calls=tuple(calls))


def _split_reasoning(turn: str) -> tuple[str, str]:
    """A turn that opens a thought and does not close it is all thought."""
    stripped = turn.lstrip()
    opens = stripped.startswith(THINK_OPEN)
    thought, closed, rest = turn.partition(THINK_CLOSE)
    if closed and (opens or THINK_OPEN not in thought):
        return thought.strip().removeprefix(THINK_OPEN).strip(), rest
    if opens:
        return stripped.removeprefix(THINK_OPEN).strip(), ""
    return "", turn


def _call(body: str) -> ToolCall | MalformedCall:
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        return _malformed(body, "The tool call is nested too deeply.")
    except json.JSONDecodeError as error:
        return _malformed(
            body, f"The tool call is not valid JSON: {error.msg} at character {error.pos}."
        )
    except ValueError as error:
        return _malformed(body, f"The tool call is not valid JSON: {error}.")
    if not isinstance(value, dict):
        return _malformed(body, "The tool call must be a JSON object.")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        return _malformed(body, 'The tool call needs a "name".')
    unknown = sorted(map(str, value.keys() - {"name", "arguments"}))
    if unknown:
        keys = ", ".join(unknown)
        return _malformed(body, f'Only "name" and "arguments" are allowed, not: {keys}.', name)
    return _checked(body, name, value.get("arguments", {}))


def _checked(body: str, name: str, arguments: Any) -> ToolCall | MalformedCall:
    if not isinstance(arguments, dict):
        return _malformed(body, 'The "arguments" must be a JSON object.', name)
    if _depth(arguments) > MAX_DEPTH:
        return _malformed(body, "The arguments are nested too deeply.", name)
    try:
        text = canonical_json(arguments)
        (name + text).encode()
    except UnicodeEncodeError:
        return _malformed(body, "The tool call holds half of a surrogate pair.", "")
    except ValueError:
        return _malformed(body, "The arguments hold a number that is not finite.", name)
    return ToolCall(name=name.strip(), arguments_json=text)


def _malformed(body: str, problem: str, name: str = "") -> MalformedCall:
    clean = [
        part.encode(errors="replace").decode() for part in (name.strip(), body.strip(), problem)
    ]
    return MalformedCall(name=clean[0], raw=clean[1], problem=clean[2])


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
