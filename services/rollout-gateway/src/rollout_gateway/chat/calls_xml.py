"""Calls as function and parameter tags, typed by the tool's JSON Schema.

    <function=issue_refund>
    <parameter=amount>
    34.9
    </parameter>
    </function>

A value is text; what it stands for is the schema's to say. One newline after the opening tag and one
before the closing tag belong to the format, everything else to the value.
"""

import json
import re
from collections.abc import Mapping
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

FUNCTION = re.compile(r"\s*<function=([^>\n]*)>")
PARAMETER = re.compile(r"\s*<parameter=([^>\n]*)>")
FUNCTION_CLOSE, PARAMETER_CLOSE = "</function>", "</parameter>"
CLOSE = re.compile(r"\s*</function>\s*\Z")
JSON_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
WORDS = {"True": "true", "False": "false", "None": "null"}
MAX_REFERENCES = 16


class _Wrong(Exception):
    """A value that its schema does not allow; the message is for the model."""


def read_xml_call(body: str, schemas: Schemas) -> ToolCall | MalformedCall:
    opened = FUNCTION.match(body)
    if opened is None:
        return malformed(body, "The tool call must begin with <function=name>.")
    name, position = opened.group(1).strip(), opened.end()
    if not name:
        return malformed(body, "The <function=…> tag needs a name.")
    schema = schemas.get(name, {})
    arguments: dict[str, Any] = {}
    while (parameter := PARAMETER.match(body, position)) is not None:
        key = parameter.group(1).strip()
        end = body.find(PARAMETER_CLOSE, parameter.end())
        if not key:
            return malformed(body, "A <parameter=…> tag needs a name.", name)
        if end < 0:
            return malformed(body, f"The parameter {key} has no {PARAMETER_CLOSE}.", name)
        if key in arguments:
            return malformed(body, f"The parameter {key} is given twice.", name)
        text = body[parameter.end() : end].removeprefix("\n").removesuffix("\n")
        try:
            arguments[key] = typed(text, schema.get("properties", {}).get(key, {}), schema)
        except _Wrong as wrong:
            return malformed(body, f"The parameter {key} {wrong}.", name)
        position = end + len(PARAMETER_CLOSE)
    if CLOSE.match(body, position) is None:
        return malformed(
            body, f"After its parameters the call must end with {FUNCTION_CLOSE}.", name
        )
    return checked(body, name, arguments)


def write_xml_call(name: str, arguments: dict[str, Any]) -> str:
    """The canonical text of a call, tags included."""
    parameters = "".join(
        f"<parameter={key}>\n{_written(value)}\n{PARAMETER_CLOSE}\n"
        for key, value in arguments.items()
    )
    return f"{CALL_OPEN}\n<function={name}>\n{parameters}{FUNCTION_CLOSE}\n{CALL_CLOSE}"


def typed(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value that `text` stands for under `schema`; text where the schema says nothing.

    Raises _Wrong when no type that the schema allows can be read from it.
    """
    schema = _resolved(schema, root)
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return _choice(text, choices)
    kinds = _kinds(schema, root)
    if not kinds:
        return text
    value, is_json = _json(text)
    if is_json:
        for kind in sorted(kinds - {"string"}):
            if _is(value, kind):
                return value
            if kind == "integer" and isinstance(value, float) and value.is_integer():
                return int(value)
    if "string" in kinds:
        return text
    raise _Wrong(f"must be {' or '.join(sorted(kinds))}")


def _choice(text: str, choices: list[Any]) -> Any:
    for choice in choices:
        if text == choice:
            return choice
    value, is_json = _json(text)
    for choice in choices:
        if is_json and not isinstance(choice, str) and value == choice:
            return choice
    # A wrong choice among texts is the tool's to refuse, with its own words.
    if any(isinstance(choice, str) for choice in choices):
        return text
    raise _Wrong(f"must be one of {', '.join(map(json.dumps, choices))}")


def _kinds(schema: Mapping[str, Any], root: Mapping[str, Any]) -> set[str]:
    """Every JSON type that the schema allows; empty when it does not say."""
    told = schema.get("type")
    kinds: set[str] = {told} if isinstance(told, str) else set(told or ())
    for key in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(key, ()):
            part = _resolved(part, root)
            kinds |= _kinds(part, root)
            if "enum" in part or "const" in part:
                kinds.add("string")
    return kinds


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        found: Any = root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        schema = found if isinstance(found, Mapping) else {}
    return {}


def _json(text: str) -> tuple[Any, bool]:
    stripped = text.strip()
    try:
        return json.loads(WORDS.get(stripped, stripped), parse_constant=refuse_constant), True
    except (ValueError, RecursionError):
        return None, False


def _is(value: Any, kind: str) -> bool:
    """JSON's types: true is no number."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, JSON_TYPES.get(kind, ()))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
