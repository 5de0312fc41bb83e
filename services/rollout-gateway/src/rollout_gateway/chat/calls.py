"""A tool call as the policy wrote it: read, or with a sentence about what is wrong with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envfarm.canonical import canonical_json

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
MAX_DEPTH = 64
"""Deepest nesting of arguments."""

Schemas = Mapping[str, Mapping[str, Any]]
"""Tool name → JSON Schema (object) of its arguments."""


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


ReadCall = Callable[[str, Schemas], ToolCall | MalformedCall]
"""What stands between the tags of one call, and the tools that there are."""


def checked(body: str, name: str, arguments: Any) -> ToolCall | MalformedCall:
    """The call, if its arguments can be written as JSON and recorded."""
    if not isinstance(arguments, dict):
        return malformed(body, 'The "arguments" must be a JSON object.', name)
    if _depth(arguments) > MAX_DEPTH:
        return malformed(body, "The arguments are nested too deeply.", name)
    try:
        text = canonical_json(arguments)
        (name + text).encode()
    except UnicodeEncodeError:
        return malformed(body, "The tool call holds half of a surrogate pair.", "")
    except ValueError:
        return malformed(body, "The arguments hold a number that is not finite.", name)
    return ToolCall(name=name.strip(), arguments_json=text)


def malformed(body: str, problem: str, name: str = "") -> MalformedCall:
    clean = [
        part.encode(errors="replace").decode() for part in (name.strip(), body.strip(), problem)
    ]
    return MalformedCall(name=clean[0], raw=clean[1], problem=clean[2])


def refuse_constant(name: str) -> Any:
    """For json.loads: NaN and its like are not JSON."""
    raise ValueError(f"{name} is not JSON")


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
