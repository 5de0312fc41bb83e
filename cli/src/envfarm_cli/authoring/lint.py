"""Mistakes of authors that show in a task's files, before anything runs.

error    no_database_check   nothing looks at the database
error    cannot_fail         a check that every run passes
error    leaks_reply         the golden reply stands where the agent or the user reads it
error    leaks_check         so does a query, or a phrase of checks and near misses
error    leaks_made_id       so does an id that exists only after the golden run
error    context_judges      the person says what the agent ought to do
error    ambiguous_goal      a text that nobody can know is compared word for word; or two tasks say the
                             same and want different ends
error    unreachable_value   a golden write needs an id that stands in no row and in nothing that is said
error    unknown_tool        a declared call names a tool that the world does not have
error    bad_arguments       a declared call gives arguments that the tool does not take
error    reply_fails         the golden reply fails one of its own checks
error    unfinished          a gap of `envfarm tasks new` is left
error    limit_too_low       the golden run does not fit the task's limits
warning  opening_tells       opening, context or script names a tool, so that the agent need not choose
warning  amount_in_context   the context names a sum of the golden run that the user asks for nowhere
warning  no_near_miss        no run is declared that looks right and is wrong
warning  user_has_no_words   neither context nor script says what the user wants
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envfarm_cli.authoring.domain_facts import DomainFacts
from envfarm_cli.authoring.finding import Finding, checks_of
from envfarm_cli.authoring.lint_reach import (
    calls_fit,
    context_judges,
    knowable,
    made_ids,
    reply_fails,
    said_by_user,
    twins,
    unfinished,
)
from envfarm_cli.authoring.task_text import TaskText

DATABASE_KINDS = {"state", "sql", "untouched", "python"}
PRIVATE_KEYS = ("near_misses", "extra_write", "contains_all", "contains_none", "unstable")
_ALWAYS_TRUE = re.compile(r"^\s*select\s+(true|1\s*=\s*1|count\(\*\)\s*>=\s*0)\b", re.IGNORECASE)
_TABLES = re.compile(r"\bfrom\b|\btable\b", re.IGNORECASE)
LONG_NAME = 20
"""Shorter check names may stand in other texts by chance."""


def lint(
    tasks: Sequence[TaskText], facts: Mapping[str, DomainFacts] | None = None
) -> list[Finding]:
    """Everything found, in the order of the tasks. Without the `facts` of a domain the rules that look
    at its world are left out."""
    rules = (
        unfinished,
        _database_check,
        _cannot_fail,
        reply_fails,
        _leaks,
        context_judges,
        _limits,
        _opening_tells,
        _amount_in_context,
        _near_misses,
        _user_words,
    )
    with_world = (calls_fit, knowable, made_ids)
    found: list[Finding] = []
    for task in tasks:
        found += [finding for rule in rules for finding in rule(task)]
        if known := (facts or {}).get(task.domain):
            found += [finding for rule in with_world for finding in rule(task, known)]
    return [*found, *twins(tasks)]


def _database_check(task: TaskText) -> Iterator[Finding]:
    if not any(check.get("kind") in DATABASE_KINDS for check in checks_of(task)):
        yield Finding(
            task.task_id, "error", "no_database_check", "only words are judged; add a state check"
        )


def _cannot_fail(task: TaskText) -> Iterator[Finding]:
    for check in checks_of(task):
        why = _always_passes(check)
        if why:
            yield Finding(
                task.task_id, "error", "cannot_fail", f"check {check.get('name')!r}: {why}"
            )


def _always_passes(check: dict[str, Any]) -> str:
    """Why no run can fail this check; empty when one can."""
    kind = check.get("kind")
    if kind == "reply":
        words = [
            str(word) for key in ("contains_all", "contains_none") for word in check.get(key) or []
        ]
        pattern = check.get("matches")
        if not words and pattern is None:
            return "it asks for no words"
        if pattern is not None and not words and _matches_nothing(str(pattern)):
            return f"the empty reply matches {pattern!r}"
    if kind == "sql" and _ALWAYS_TRUE.match(str(check.get("query", ""))):
        return "the query is true of every database"
    if kind == "sql" and not _TABLES.search(str(check.get("query", ""))):
        return "the query looks at no table"
    if kind == "untouched" and not check.get("tables"):
        return "it names no table"
    if kind == "python" and not re.search(
        r"\b(changes|reply|rows)\b", _body(str(check.get("code")))
    ):
        return "the code looks at nothing that the run did"
    return ""


def _matches_nothing(pattern: str) -> bool:
    try:
        return re.search(pattern, "") is not None
    except re.error:
        return False


def _body(code: str) -> str:
    return code.partition("\n")[2]


def _leaks(task: TaskText) -> Iterator[Finding]:
    shown = {
        "opening": task.opening,
        "context": str(task.user.get("context", "")),
        "script": " ".join(str(line.get("say", "")) for line in task.user.get("script") or []),
    }
    secrets = [
        check["name"] for check in checks_of(task) if len(str(check.get("name"))) > LONG_NAME
    ]
    secrets += [miss.get("name") for miss in task.private.get("near_misses") or []]
    secrets += [check["query"] for check in checks_of(task) if check.get("query")]
    for place, text in shown.items():
        flat = _flat(text)
        if task.golden_reply and _flat(task.golden_reply) in flat:
            yield Finding(task.task_id, "error", "leaks_reply", f"{place} holds the golden reply")
        for secret in [*PRIVATE_KEYS, *filter(None, secrets)]:
            if _flat(str(secret)) in flat:
                yield Finding(task.task_id, "error", "leaks_check", f"{place} says {secret!r}")


def _flat(text: str) -> str:
    return " ".join(text.split()).lower()


def _limits(task: TaskText) -> Iterator[Finding]:
    most = (task.public.get("limits") or {}).get("max_tool_calls")
    if isinstance(most, int) and len(task.calls) > most:
        yield Finding(
            task.task_id,
            "error",
            "limit_too_low",
            f"the golden run has {len(task.calls)} calls and max_tool_calls is {most}",
        )


def _opening_tells(task: TaskText) -> Iterator[Finding]:
    for place, text in {"the opening": task.opening, **said_by_user(task)}.items():
        for tool in sorted(set(task.skeleton)):
            if "_" in tool and tool in text:
                message = f"{place} names the tool {tool}"
                yield Finding(task.task_id, "warning", "opening_tells", message)


def _amount_in_context(task: TaskText) -> Iterator[Finding]:
    """A user who recites a sum with cents that nobody said before tells the agent the answer."""
    context = str(task.user.get("context", ""))
    for call in task.calls:
        for name, value in (call.get("arguments") or {}).items():
            if isinstance(value, float) and value % 1:
                shown = f"{value:.2f}"
                if shown in context and shown not in task.opening:
                    message = f"the context names {shown}, which is {name} of {call.get('tool')}"
                    yield Finding(task.task_id, "warning", "amount_in_context", message)


def _near_misses(task: TaskText) -> Iterator[Finding]:
    if not task.private.get("near_misses"):
        message = "declare a run that the policy forbids and the tools allow"
        yield Finding(task.task_id, "warning", "no_near_miss", message)


def _user_words(task: TaskText) -> Iterator[Finding]:
    if not str(task.user.get("context", "")).strip() and not task.user.get("script"):
        message = "say in the context what the user knows, wants and accepts"
        yield Finding(task.task_id, "warning", "user_has_no_words", message)
