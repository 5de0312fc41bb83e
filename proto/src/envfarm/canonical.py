"""Canonical JSON and content hashes: equal content, equal bytes, on every side of the wire."""

import hashlib
import json
from decimal import Decimal
from typing import Any


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, UTF-8 kept; raises ValueError on NaN and infinities."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 (hex) of `data`."""
    return hashlib.sha256(data).hexdigest()


def canonical_row(jsonb_text: str) -> str:
    """Canonical JSON of a row that Postgres wrote with `to_jsonb`.

    Equal numbers become equal text whatever their scale (12.50 is 12.5, 3.00 is 3), and a number
    that no double holds exactly stays as text, so two different amounts never become equal.
    """
    try:
        return canonical_json(json.loads(jsonb_text, parse_float=_exact))
    except ValueError:
        # Python reads and writes no integer of more than 4300 digits; Postgres holds 131,072.
        return canonical_json(json.loads(jsonb_text, parse_float=_long, parse_int=_long))


def _long(text: str) -> int | float | str:
    """A number of very many digits as text, without zeros at its end that say nothing."""
    if len(text) < 4000:
        return int(text) if text.lstrip("-").isdigit() else _exact(text)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _exact(text: str) -> int | float | str:
    value = Decimal(text)
    if value == value.to_integral_value():
        return int(value)
    number = float(text)
    return number if Decimal(repr(number)) == value else text.rstrip("0")
