"""Wrong values for an argument, by what the tool's schema and the world say of it."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from grader.proof.neighbours import Neighbours

Changed = tuple[str, list[Any]]
"""What was done to the value, and the values to try, the likeliest to be accepted first."""


def changed_values(
    argument: str, value: Any, schema: dict[str, Any], neighbours: Neighbours
) -> Iterator[Changed]:
    """One or two ways to get it wrong; none for null."""
    words = [item for item in choices(schema) if item != value and item is not None]
    others = neighbours.of(argument, value)
    if words:
        for word in words[:2]:
            yield f"is {word}", [word]
    elif others:
        yield "of another record", others
    elif isinstance(value, bool):
        yield f"is {str(not value).lower()}", [not value]
    elif isinstance(value, int):
        yield "one more", [value + 1]
        yield "one less", [value - 1]
    elif isinstance(value, float):
        yield "one more", [round(value + 1, 6)]
        yield "half of it", [round(value / 2, 2)]
    elif isinstance(value, str):
        yield "another text", _other_texts(value)
    elif isinstance(value, list) and value:
        yield "without its last item", [value[:-1]]
    elif isinstance(value, dict) and value:
        name, inner = next(iter(value.items()))
        for what, values in changed_values(name, inner, _inner(schema, name), neighbours):
            yield f"{name} {what}", [{**value, name: other} for other in values]


def choices(schema: dict[str, Any]) -> list[Any]:
    """The closed list of values, also where null is one more alternative."""
    found = list(schema.get("enum", ()))
    for alternative in schema.get("anyOf", ()):
        found += alternative.get("enum", ())
    return found


def _inner(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return schema.get("properties", {}).get(name, {})


def _other_texts(value: str) -> list[Any]:
    moved = _moved(value)
    if moved is not None:
        return [moved]
    if value[-1:].isdigit():
        return [value[:-1] + str((int(value[-1]) + 1) % 10), value[:-1] or "1"]
    return [f"{value} x", f"{value}x", value[:-1] or "x"]


def _moved(value: str) -> str | None:
    """A later date or time; None when it is neither."""
    try:
        if len(value) == 10:
            return (date.fromisoformat(value) + timedelta(days=1)).isoformat()
        if len(value) > 10 and value[10] in "T ":
            return (datetime.fromisoformat(value) + timedelta(hours=1)).isoformat()
    except (ValueError, OverflowError):
        return None
    return None
