"""Calls as JSON between the tags: {"name": "find_order", "arguments": {…}}."""

import json
from typing import Any

from rollout_gateway.chat.calls import (
    CALL_CLOSE,
    CALL_OPEN,
    MalformedCall,
    Schemas,
    ToolCall,
    checked,
    malformed,
    refuse_constant,
)


def read_json_call(body: str, schemas: Schemas) -> ToolCall | MalformedCall:
    try:
        value = json.loads(body, parse_constant=refuse_constant)
    except RecursionError:
        return malformed(body, "The tool call is nested too deeply.")
    except json.JSONDecodeError as error:
        return malformed(
            body, f"The tool call is not valid JSON: {error.msg} at character {error.pos}."
        )
    except ValueError as error:
        return malformed(body, f"The tool call is not valid JSON: {error}.")
    if not isinstance(value, dict):
        return malformed(body, "The tool call must be a JSON object.")
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        return malformed(body, 'The tool call needs a "name".')
    unknown = sorted(map(str, value.keys() - {"name", "arguments"}))
    if unknown:
        keys = ", ".join(unknown)
        return malformed(body, f'Only "name" and "arguments" are allowed, not: {keys}.', name)
    return checked(body, name, value.get("arguments", {}))


def write_json_call(name: str, arguments: dict[str, Any]) -> str:
    """The canonical text of a call, tags included."""
    value = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"{CALL_OPEN}\n{value}\n{CALL_CLOSE}"
