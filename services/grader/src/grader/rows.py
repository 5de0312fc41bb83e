"""Rows as canonical text: equal values, equal text, however a number was written."""

import json
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

Row = dict[str, Any]


def parse_row(text: str) -> Row:
    """A JSON object with exact numbers; ValueError on anything else."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {text[:80]}")
    return value


def parse_json(text: str) -> Any:
    """Any JSON with exact numbers; ValueError on anything else, NaN and infinities included."""
    try:
        return json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def plain(text: str) -> Row:
    """A JSON object with Python's own numbers, for code that computes with them."""
    return json.loads(text)


def canonical_text(value: Any) -> str:
    """Canonical JSON in which 49.90, 49.9 and 4.99e1 read alike; a text '49.9' stays a text."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float | Decimal):
        return _number(value if isinstance(value, Decimal) else Decimal(repr(value)))
    if isinstance(value, Mapping):
        parts = (f"{encode_basestring(key)}:{canonical_text(value[key])}" for key in sorted(value))
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    raise ValueError(f"{type(value).__name__} is not JSON")


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is not JSON")
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
