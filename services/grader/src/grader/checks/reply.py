"""`reply`: what the final answer to the user says and does not say.

Typography is folded first, on both sides: compatibility forms (NFKC), dashes, quotes, spaces, and
characters that nobody sees. Letters that only look alike stay different. Where a part begins or ends
with a digit, the number must begin or end there as well: 34.90 is not in 134.90, O-1012 not in
O-10123.
"""

import re
import unicodedata
from functools import lru_cache

from pydantic import TypeAdapter, ValidationError

from grader.check_kinds import ReplyCheck, reply_pattern
from grader.verdict import CheckResult

_MINUS = "−"
_QUOTES = {**dict.fromkeys(map(ord, "‘’‚‛′"), "'"), **dict.fromkeys(map(ord, "“”„‟″"), '"')}


def run(check: ReplyCheck, reply: str) -> CheckResult:
    said = folded(reply)
    lower = said.casefold()
    faults = [f"lacks {part!r}" for part in check.contains_all if not _says(lower, part)]
    faults += [f"has {part!r}" for part in check.contains_none if _says(lower, part)]
    if check.matches is not None and not _matches(check.matches, said):
        faults.append(f"does not match {check.matches!r}")
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=not faults,
        expected=_expected(check),
        observed="; ".join(faults) if faults else "as expected",
    )


def folded(text: str) -> str:
    """The text with one way to write what a reader cannot tell apart in type."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return " ".join("".join(map(_in_type, plain)).split())


def _in_type(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Pd" or character == _MINUS:
        return "-"
    return "" if kind == "Cf" else character


def _says(lower: str, part: str) -> bool:
    return bool(_part(part).search(lower))


@lru_cache(maxsize=4096)
def _part(part: str) -> re.Pattern[str]:
    text = folded(part).casefold()
    before = r"(?<![0-9])(?<![0-9][.,])" if text[:1].isdigit() else ""
    after = r"(?![0-9])(?![.,][0-9])" if text[-1:].isdigit() else ""
    return re.compile(before + re.escape(text) + after)


def _matches(pattern: str, reply: str) -> bool:
    try:
        _compiled(pattern).validate_python(reply)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> TypeAdapter[str]:
    return reply_pattern(pattern)


def _expected(check: ReplyCheck) -> str:
    parts = []
    if check.contains_all:
        parts.append("has " + ", ".join(map(repr, check.contains_all)))
    if check.contains_none:
        parts.append("lacks " + ", ".join(map(repr, check.contains_none)))
    if check.matches is not None:
        parts.append(f"matches {check.matches!r}")
    return "; ".join(parts)
