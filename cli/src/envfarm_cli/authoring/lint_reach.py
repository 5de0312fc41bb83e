"""Whether the right end of a task can be reached, and by nobody but an agent that works for it.

Codes: see lint.py. Rules that need the world's tools and rows get them as DomainFacts.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envfarm.canonical import canonical_json
from pydantic import TypeAdapter, ValidationError

from env_server.refusal import Refused
from envfarm_cli.authoring.domain_facts import ID, DomainFacts
from envfarm_cli.authoring.finding import Finding, checks_of
from envfarm_cli.authoring.new_files import FILL_IN
from envfarm_cli.authoring.task_text import TaskText
from grader.check_kinds import ReplyCheck
from grader.checks import reply

_DATE_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d")
_JUDGES = re.compile(
    r"\b(agent|assistant|model)\s+(should|must|ought to|has to|is expected to)\b"
    r"|\b(right|correct|expected) (answer|action|outcome|thing to do)\b"
    r"|\b(policy|rules?) (says?|requires?|forbids?|allows?)\b",
    re.IGNORECASE,
)
LEAST_WORDS = 3
"""Of a text that an agent would have to guess word for word."""
_REPLY_CHECK = TypeAdapter(ReplyCheck)


def unfinished(task: TaskText) -> Iterator[Finding]:
    for part, value in (("task", task.public), ("user", task.user), ("private", task.private)):
        gaps = [text for text in _texts(value) if FILL_IN in text]
        if gaps:
            yield Finding(task.task_id, "error", "unfinished", f"{part}: {gaps[0][:60]!r}")


def reply_fails(task: TaskText) -> Iterator[Finding]:
    """A golden reply that its own reply checks refuse."""
    for check in checks_of(task):
        if check.get("kind") != "reply":
            continue
        try:
            result = reply.run(_REPLY_CHECK.validate_python(check), task.golden_reply)
        except ValidationError:
            # The grader's strict reading names what is wrong with the file.
            continue
        if not result.passed:
            message = f"check {result.name!r} refuses the golden reply: {result.observed}"
            yield Finding(task.task_id, "error", "reply_fails", message)


def context_judges(task: TaskText) -> Iterator[Finding]:
    """A person knows their own affairs, not how the desk has to decide."""
    for place, text in said_by_user(task).items():
        if found := _JUDGES.search(text):
            message = f"{place} says {found[0]!r}: tell what the person wants, not what is right"
            yield Finding(task.task_id, "error", "context_judges", message)


def calls_fit(task: TaskText, facts: DomainFacts) -> Iterator[Finding]:
    """Every declared call names a tool and gives it arguments that it takes."""
    for place, call in _calls(task):
        name = str(call.get("tool"))
        if name in facts.foreign:
            # Its server alone knows what it takes.
            continue
        tool = facts.tools.get(name)
        if tool is None:
            known = ", ".join([*facts.tools, *facts.foreign])
            message = f"{place}: the world has no tool {name!r}; it has {known}"
            yield Finding(task.task_id, "error", "unknown_tool", message)
            continue
        try:
            tool.parse(canonical_json(call.get("arguments") or {}))
        except Refused as refusal:
            yield Finding(task.task_id, "error", "bad_arguments", f"{place}: {refusal}")


def knowable(task: TaskText, facts: DomainFacts) -> Iterator[Finding]:
    """Texts of golden writes that an agent would have to guess."""
    said = _flat(" ".join([task.opening, *said_by_user(task).values()]))
    has_free_text = any(
        check.get("unstable") or check.get("ignore") or check.get("allow_tables")
        for check in checks_of(task)
        if check.get("kind") == "state"
    )
    has_written = False
    is_compared = any(check.get("kind") == "state" for check in checks_of(task))
    for call in task.calls:
        if call.get("tool") not in facts.writing or not is_compared:
            continue
        for name, value in (call.get("arguments") or {}).items():
            if not isinstance(value, str) or _flat(value) in said or _flat(value) in facts.flat:
                continue
            where = f"{name} of {call.get('tool')} is {value[:60]!r}"
            if len(value.split()) >= LEAST_WORDS and not has_free_text:
                message = f"{where}, which nobody can know word for word: declare it unstable"
                yield Finding(task.task_id, "error", "ambiguous_goal", message)
            elif not has_written and _is_id(value) and not value.startswith(facts.id_prefixes):
                message = f"{where}, which stands in no row and in nothing that is said"
                yield Finding(task.task_id, "error", "unreachable_value", message)
        # From here on ids may have been made by a call.
        has_written = True


def made_ids(task: TaskText, facts: DomainFacts) -> Iterator[Finding]:
    """Ids that exist only after the golden run, told by the person before it."""
    for place, text in {"the opening": task.opening, **said_by_user(task)}.items():
        for call in task.calls:
            for value in (call.get("arguments") or {}).values():
                if not isinstance(value, str) or not ID.fullmatch(value):
                    continue
                pattern = rf"(?<![\w-]){re.escape(value)}(?![\w-])"
                if re.search(pattern, text) and not re.search(pattern, facts.rows):
                    message = f"{place} names {value}, which no row has before the golden run"
                    yield Finding(task.task_id, "error", "leaks_made_id", message)


def twins(tasks: Sequence[TaskText]) -> Iterator[Finding]:
    """The same words of the same person with two right ends: nobody can tell which is meant."""
    by_words: dict[tuple[str, ...], list[TaskText]] = defaultdict(list)
    for task in tasks:
        by_words[
            (task.domain, _flat(task.opening), *map(_flat, said_by_user(task).values()))
        ].append(task)
    for same in by_words.values():
        first = same[0]
        for other in same[1:]:
            if canonical_json(first.calls) != canonical_json(other.calls):
                message = f"says what {first.task_id} says and has another golden run"
                yield Finding(other.task_id, "error", "ambiguous_goal", message)


def said_by_user(task: TaskText) -> dict[str, str]:
    """What the person may say beyond the opening, by place."""
    return {
        "the context": str(task.user.get("context", "")),
        "the script": " ".join(str(line.get("say", "")) for line in task.user.get("script") or []),
    }


def _calls(task: TaskText) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, call in enumerate(task.calls, 1):
        yield f"golden call {number}", call
    if extra := task.private.get("extra_write"):
        yield "extra_write", extra
    for miss in task.private.get("near_misses") or []:
        for number, call in enumerate(miss.get("actions") or [], 1):
            yield f"near miss {miss.get('name')!r}, call {number}", call


def _is_id(value: str) -> bool:
    return (
        any(character.isdigit() for character in value)
        and not _DATE_OR_TIME.search(value)
        and len(value.split()) == 1
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _flat(text: str) -> str:
    return " ".join(text.split()).lower()
