"""The fixed catalogue of mutants: what agents do wrong, derived from the golden run of a task.

    call dropped         each WRITE call left out
    argument changed     each argument of each WRITE call
    order broken         each two neighbouring WRITE calls exchanged
    extra write          the declared one, and each WRITE call once more on a neighbour's record
    neighbour's record   the whole run on another record
    half done            only the first WRITE calls, or none, with the golden reply; or no reply
    done twice           each WRITE call repeated, and the whole run repeated
    near miss            the runs that the task's author declares

Reading calls change nothing and are left out. Runs that are equal appear once, under the first name.
Where these are fewer than LEAST_MUTANTS, `further.py` adds to them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from envfarm.canonical import canonical_json
from envfarm.v1 import task_pb2

from grader.checkset import Action, CheckFile
from grader.proof.argument_values import changed_values, choices
from grader.proof.neighbours import Neighbours

Episode = Literal["own", "empty", "golden"]
LEAST_MUTANTS = 12
"""Fewer prove little about a task."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A run that must fail."""

    kind: str
    name: str
    """Unique within the task; starts with the kind."""
    runs: tuple[tuple[Action, ...], ...]
    """Ways to do it; the first whose calls are all accepted is taken, or else the last."""
    reply: str
    must_run: bool = False
    """Whether each of its calls must be accepted, or it would prove nothing."""
    episode: Episode = "own"
    """One that was played already: only the reply is another."""
    only_if_accepted: bool = False
    """Whether it is none where one of its calls is refused."""


def catalogue(
    task: task_pb2.Task, checks: CheckFile, neighbours: Neighbours, free_text: frozenset[str]
) -> list[Mutant]:
    """All mutants of a task; `free_text` holds texts that, by declaration, may be anything."""
    writes, schemas = writes_of(task, checks.golden.actions), schemas_of(task)
    made = [
        *_declared(checks, writes),
        *_dropped(writes),
        *_half_done(writes, has_words=_has_words(checks)),
        *_twice(writes),
        *_order(writes),
        *_neighbour(writes, schemas, neighbours),
        *_arguments(writes, schemas, neighbours, free_text),
    ]
    return list(_distinct(made, checks, writes))


def writes_of(task: task_pb2.Task, actions: Sequence[Action]) -> tuple[Action, ...]:
    """The calls that may change something."""
    writing = {tool.name for tool in task.tools if tool.access == task_pb2.TOOL_ACCESS_WRITE}
    return tuple(action for action in actions if action.tool in writing)


def schemas_of(task: task_pb2.Task) -> dict[str, dict[str, Any]]:
    """Tool → argument → its JSON Schema."""
    return {
        tool.name: json.loads(tool.input_schema_json or "{}").get("properties", {})
        for tool in task.tools
    }


@dataclass(frozen=True, slots=True)
class _Draft:
    kind: str
    what: str
    runs: tuple[tuple[Action, ...], ...]
    reply: str | None = None
    """None takes the golden reply."""
    must_run: bool = False
    episode: Episode = "own"


def _distinct(
    drafts: Sequence[_Draft], checks: CheckFile, writes: tuple[Action, ...]
) -> Iterator[Mutant]:
    """Each run once, and not the golden or the empty run, which are proved on their own."""
    golden = checks.golden
    seen = {identity((writes,), golden.reply), identity(((),), "")}
    for draft in drafts:
        reply = golden.reply if draft.reply is None else draft.reply
        mark = identity(draft.runs, reply)
        if mark in seen and not draft.must_run:
            continue
        seen.add(mark)
        yield Mutant(
            draft.kind,
            f"{draft.kind}: {draft.what}",
            draft.runs,
            reply,
            must_run=draft.must_run,
            episode=draft.episode,
        )


def identity(runs: tuple[tuple[Action, ...], ...], reply: str) -> str:
    """Equal for runs in which the agent does and says the same."""
    return canonical_json([[[a.model_dump() for a in run] for run in runs], reply])


def _declared(checks: CheckFile, writes: tuple[Action, ...]) -> Iterator[_Draft]:
    if checks.extra_write:
        extra = (*writes, checks.extra_write)
        yield _Draft("extra write", checks.extra_write.tool, (extra,), must_run=True)
    for miss in checks.near_misses:
        yield _Draft("near miss", miss.name, (tuple(miss.actions),), miss.reply, must_run=True)


def _dropped(writes: tuple[Action, ...]) -> Iterator[_Draft]:
    if len(writes) > 1:
        for place, action in enumerate(writes):
            rest = (*writes[:place], *writes[place + 1 :])
            yield _Draft("call dropped", named_call(place, action), (rest,))


def _half_done(writes: tuple[Action, ...], *, has_words: bool) -> Iterator[_Draft]:
    if writes:
        yield _Draft("half done", "nothing but the reply", ((),), episode="empty")
    for count in range(1, len(writes)):
        yield _Draft("half done", f"the first {count} of {len(writes)} writes", (writes[:count],))
    if has_words:
        yield _Draft("half done", "everything but the reply", (writes,), "", episode="golden")


def _has_words(checks: CheckFile) -> bool:
    """Whether some check asks for words, so that silence is a mistake."""
    return any(
        check.kind == "reply" and (check.contains_all or check.matches) for check in checks.checks
    )


def _twice(writes: tuple[Action, ...]) -> Iterator[_Draft]:
    for place, action in enumerate(writes):
        again = (*writes[: place + 1], action, *writes[place + 1 :])
        yield _Draft("done twice", named_call(place, action), (again,))
    if len(writes) > 1:
        yield _Draft("done twice", "the whole run", ((*writes, *writes),))


def _order(writes: tuple[Action, ...]) -> Iterator[_Draft]:
    for place in range(len(writes) - 1):
        first, second = writes[place : place + 2]
        run = (*writes[:place], second, first, *writes[place + 2 :])
        yield _Draft(
            "order broken",
            f"{named_call(place + 1, second)} before {named_call(place, first)}",
            (run,),
        )


def records_of(
    actions: Sequence[Action], schemas: Mapping[str, dict[str, Any]], neighbours: Neighbours
) -> Iterator[tuple[str, Any, list[Any]]]:
    """Each record that the calls name, once: argument, value, and the values of similar records."""
    seen: set[str] = set()
    for action in actions:
        for argument, value in action.arguments.items():
            # A closed list of words names no record, even where a table repeats the words.
            is_word = choices(schemas[action.tool].get(argument, {}))
            others = [] if is_word else neighbours.of(argument, value)
            if others and f"{argument} {value}" not in seen:
                seen.add(f"{argument} {value}")
                yield argument, value, others


def _neighbour(
    writes: tuple[Action, ...], schemas: dict[str, dict[str, Any]], neighbours: Neighbours
) -> Iterator[_Draft]:
    for argument, value, others in records_of(writes, schemas, neighbours):
        runs = tuple(
            tuple(on_record(action, value, other) for action in writes) for other in others
        )
        yield _Draft("neighbour's record", f"another {argument} than {value}", runs)
    for place, action in enumerate(writes):
        for argument, value, others in records_of([action], schemas, neighbours):
            runs = tuple((*writes, on_record(action, value, other)) for other in others)
            what = f"{named_call(place, action)} also for another {argument}"
            yield _Draft("extra write", what, runs)
            break


def _arguments(
    writes: tuple[Action, ...],
    schemas: dict[str, dict[str, Any]],
    neighbours: Neighbours,
    free_text: frozenset[str],
) -> Iterator[_Draft]:
    for place, action in enumerate(writes):
        for argument, what, changed in argument_changes(
            action, schemas[action.tool], neighbours, free_text
        ):
            runs = tuple((*writes[:place], other, *writes[place + 1 :]) for other in changed)
            yield _Draft("argument changed", f"{named_call(place, action)} {argument} {what}", runs)


def argument_changes(
    action: Action,
    schemas: Mapping[str, Any],
    neighbours: Neighbours,
    free_text: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, str, list[Action]]]:
    """Argument, what was done to it, and calls that do so, the likeliest to be accepted first."""
    for argument, value in action.arguments.items():
        schema = schemas.get(argument, {})
        # A word from a closed list is a choice and never free text.
        if isinstance(value, str) and value in free_text and not choices(schema):
            continue
        for what, values in changed_values(argument, value, schema, neighbours):
            yield argument, what, [_with(action, argument, other) for other in values]


def named_call(place: int, action: Action) -> str:
    """A writing call by its place and tool."""
    return f"write {place + 1} {action.tool}"


def _with(action: Action, argument: str, value: Any) -> Action:
    return Action(tool=action.tool, arguments={**action.arguments, argument: value})


def on_record(action: Action, value: Any, other: Any) -> Action:
    """The same call with `other` in every place where `value` stood."""
    arguments = {
        name: other if type(given) is type(value) and given == value else given
        for name, given in action.arguments.items()
    }
    return Action(tool=action.tool, arguments=arguments)
