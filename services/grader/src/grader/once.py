"""A member that stands twice in a JSON object is refused: readers differ in which of the two they
believe, so a caller and the grader could mean different things by one body."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_NAME = re.compile(rb'[ \t\r\n]*[{,][ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*')
Read = Mapping[str, "msgspec.Raw | Mapping[str, msgspec.Raw] | None"]


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object for `json.loads(object_pairs_hook=...)`; ValueError names a member that is there
    twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:100]!r} is there twice")
    return made


def require_once(text: bytes) -> None:
    """Looks into every object of a small JSON text; ValueError names a member that is there twice."""
    json.loads(text, object_pairs_hook=unique, parse_int=str, parse_float=str)


def require_members_once(text: bytes, read: Read) -> None:
    """The same for the outermost object of a large text, by what the fast reader took from it.

    The reader keeps the last of two members. So in the order of the text each member must hold
    exactly what was read, and none may come again; values are compared as bytes, not parsed. Only a
    text that fails this is parsed, to name the member.
    """
    if _walk(text, 0, read) is None:
        require_once(text)


def _walk(text: bytes, at: int, read: Read) -> int | None:
    """Where the text goes on behind the object that starts here; None when a member is not the one
    that was read."""
    seen: set[str] = set()
    while found := _NAME.match(text, at):
        name = json.loads(found[1])
        if name in seen or name not in read:
            return None
        end = _behind(text, found.end(), read[name])
        if end is None:
            return None
        seen.add(name)
        at = end
    return text.index(b"}", at) + 1


def _behind(
    text: bytes, at: int, value: "msgspec.Raw | Mapping[str, msgspec.Raw] | None"
) -> int | None:
    if isinstance(value, Mapping):
        return _walk(text, at, value) if text.startswith(b"{", at) else None
    told = memoryview(b"null" if value is None else value)
    return at + len(told) if text.startswith(told, at) else None
