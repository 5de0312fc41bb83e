"""`reply`: what the final answer to the user says and does not say."""

from functools import lru_cache

from pydantic import TypeAdapter, ValidationError

from grader.checkset import ReplyCheck, reply_pattern
from grader.verdict import CheckResult


def run(check: ReplyCheck, reply: str) -> CheckResult:
    said = " ".join(reply.casefold().split())
    faults = [f"lacks {part!r}" for part in check.contains_all if part.casefold() not in said]
    faults += [f"has {part!r}" for part in check.contains_none if part.casefold() in said]
    if check.matches is not None and not _matches(check.matches, reply):
        faults.append(f"does not match {check.matches!r}")
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=not faults,
        expected=_expected(check),
        observed="; ".join(faults) if faults else "as expected",
    )


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
