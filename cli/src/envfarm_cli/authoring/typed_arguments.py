"""Arguments of a tool as a person types them: `name=value ...`, or one JSON object."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from envfarm_cli.failure import BadInput


def parse_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the schema: what may be text stays text, all else is JSON; BadInput says what is wrong."""
    text = text.strip()
    if text.startswith("{"):
        return _object(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{error}", hint="close the quotes") from error
    properties: Mapping[str, Any] = schema.get("properties", {})
    found: dict[str, Any] = {}
    for word in words:
        name, has_value, value = word.partition("=")
        if not has_value:
            raise BadInput(
                f"{word!r} is no name=value", hint='write name=value, or name="two words"'
            )
        if name not in properties:
            known = ", ".join(properties) or "none"
            raise BadInput(f"there is no argument {name!r}", hint=f"arguments are: {known}")
        found[name] = _value(name, value, properties[name], schema)
    return found


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """One line: `refund(order_id: string, amount: number, note?: string)`; ? need not be given."""
    required = schema.get("required", [])
    parts = [
        f"{argument}{'' if argument in required else '?'}: {kind(spec, schema)}"
        for argument, spec in schema.get("properties", {}).items()
    ]
    return f"{name}({', '.join(parts)})"


def kind(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """The type of an argument in a word or two."""
    spec = _resolved(spec, schema)
    if "anyOf" in spec:
        return " | ".join(kind(part, schema) for part in spec["anyOf"])
    if "enum" in spec:
        return " | ".join(map(str, spec["enum"]))
    if "const" in spec:
        return str(spec["const"])
    return str(spec.get("type", "any"))


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadInput(f"not JSON: {error}", hint="or write name=value") from error
    if not isinstance(value, dict):
        raise BadInput("the arguments must be one JSON object")
    return value


def _value(name: str, text: str, spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    spec = _resolved(spec, schema)
    kinds = {str(_resolved(part, schema).get("type")) for part in spec.get("anyOf", [spec])}
    is_text = "string" in kinds or any(isinstance(word, str) for word in _words(spec, schema))
    if is_text:
        return None if "null" in kinds and text == "null" else text
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(
            f"{name}={text}: a value of type {kind(spec, schema)} is expected"
        ) from error


def _words(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Any]:
    parts = [_resolved(part, schema) for part in spec.get("anyOf", [spec])]
    return [word for part in parts for word in [*part.get("enum", []), part.get("const")]]


def _resolved(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in spec:
        return schema.get("$defs", {}).get(spec["$ref"].rpartition("/")[2], {})
    return spec
