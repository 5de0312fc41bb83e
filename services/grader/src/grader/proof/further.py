"""More wrong runs for tasks in which the catalogue finds few: tasks that write once or not at all.

    gives in             the right run, and then what a near miss writes beyond it
    near miss half done  only the first WRITE calls of a near miss
    another tool         a WRITE call made with another WRITE tool, on the same record
    extra write          a WRITE tool that nobody asked for, on the records of the run
    neighbour's record   a near miss on another record
    argument changed     a near miss with each argument changed
    extra write          the declared one on another record and with other arguments; each WRITE call
                         once more with each of its records exchanged

Arguments come from the task's own runs, by their names, and from closed lists of words. A run counts
only where the tools accept each of its calls: a refused call is a mistake that the world prevents.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from envfarm.v1 import task_pb2

from grader.checkset import Action, CheckFile
from grader.proof.argument_values import choices
from grader.proof.mutants import (
    Mutant,
    argument_changes,
    identity,
    named_call,
    on_record,
    records_of,
    schemas_of,
    writes_of,
)
from grader.proof.neighbours import Neighbours

MOST_WORDS = 2
"""Words that are tried of one closed list."""
Wrong = tuple[str, str, tuple[Action, ...]]
"""Kind, what is wrong, and the run."""


def further(
    task: task_pb2.Task,
    checks: CheckFile,
    neighbours: Neighbours,
    free_text: frozenset[str],
    known: Iterable[Mutant],
) -> Iterator[Mutant]:
    """Runs that are not among the `known` ones, the likeliest mistakes first; `free_text` holds texts
    that, by declaration, may be anything."""
    writes = writes_of(task, checks.golden.actions)
    reply = checks.golden.reply
    seen = {identity((run,), mutant.reply) for mutant in known for run in mutant.runs}
    names = {mutant.name for mutant in known}
    seen |= {identity((writes,), reply), identity(((),), reply)}
    for kind, what, run in _wrong_runs(task, checks, writes, neighbours, free_text):
        if _is_right(run, writes, free_text):
            continue
        name, mark = f"{kind}: {what}", identity((run,), reply)
        if mark not in seen and name not in names:
            seen.add(mark)
            names.add(name)
            yield Mutant(kind, name, (run,), reply, only_if_accepted=True)


def _is_right(
    run: tuple[Action, ...], writes: tuple[Action, ...], free_text: frozenset[str]
) -> bool:
    """Whether the run is the right one in other words: so a near miss is on the right record."""
    return len(run) == len(writes) and all(
        _says_the_same(one, other, free_text) for one, other in zip(run, writes, strict=True)
    )


def _says_the_same(action: Action, right: Action, free_text: frozenset[str]) -> bool:
    return (
        action.tool == right.tool
        and action.arguments.keys() == right.arguments.keys()
        and all(
            value == action.arguments[name] or (isinstance(value, str) and value in free_text)
            for name, value in right.arguments.items()
        )
    )


def _wrong_runs(
    task: task_pb2.Task,
    checks: CheckFile,
    writes: tuple[Action, ...],
    neighbours: Neighbours,
    free_text: frozenset[str],
) -> Iterator[Wrong]:
    schemas = schemas_of(task)
    misses = [(miss.name, writes_of(task, miss.actions)) for miss in checks.near_misses]
    given = _given(checks)
    yield from _gives_in(writes, misses, free_text)
    for name, run in misses:
        for count in range(1, len(run)):
            yield "near miss half done", f"{name}, the first {count}", run[:count]
    yield from _another_tool(task, writes, given)
    yield from _unasked(task, writes, given, free_text)
    for name, run in misses:
        for argument, value, others in records_of(run, schemas, neighbours):
            for other in others:
                moved = tuple(on_record(action, value, other) for action in run)
                yield "neighbour's record", f"{name}, {argument} is {other}", moved
    yield from _misses_changed(misses, schemas, neighbours)
    if checks.extra_write:
        yield from _extra_elsewhere(checks.extra_write, writes, schemas, neighbours)
    for place, action in enumerate(writes):
        for argument, value, others in records_of([action], schemas, neighbours):
            for other in others:
                what = f"{named_call(place, action)} also for {argument} {other}"
                yield "extra write", what, (*writes, on_record(action, value, other))


def _gives_in(
    writes: tuple[Action, ...],
    misses: Sequence[tuple[str, tuple[Action, ...]]],
    free_text: frozenset[str],
) -> Iterator[Wrong]:
    for name, run in misses:
        beyond = tuple(action for action in run if not _is_among(action, writes, free_text))
        if beyond:
            yield "gives in", name, (*writes, *beyond)


def _another_tool(
    task: task_pb2.Task, writes: tuple[Action, ...], given: Mapping[str, list[Any]]
) -> Iterator[Wrong]:
    for place, action in enumerate(writes):
        own = {name: [value] for name, value in action.arguments.items()}
        for other in _calls(task, {**given, **own}):
            if other.tool != action.tool:
                run = (*writes[:place], other, *writes[place + 1 :])
                yield "another tool", f"{named_call(place, action)} is {_shown(other)}", run


def _unasked(
    task: task_pb2.Task,
    writes: tuple[Action, ...],
    given: Mapping[str, list[Any]],
    free_text: frozenset[str],
) -> Iterator[Wrong]:
    for action in _calls(task, given):
        if not _is_among(action, writes, free_text):
            yield "extra write", f"{_shown(action)}, which nobody asked for", (*writes, action)


def _is_among(action: Action, writes: tuple[Action, ...], free_text: frozenset[str]) -> bool:
    return any(_says_the_same(action, right, free_text) for right in writes)


def _misses_changed(
    misses: Sequence[tuple[str, tuple[Action, ...]]],
    schemas: Mapping[str, dict[str, Any]],
    neighbours: Neighbours,
) -> Iterator[Wrong]:
    for name, run in misses:
        for place, action in enumerate(run):
            for argument, what, changed in argument_changes(
                action, schemas[action.tool], neighbours
            ):
                shown = f"{name}, {named_call(place, action)} {argument} {what}"
                yield "argument changed", shown, (*run[:place], changed[0], *run[place + 1 :])


def _extra_elsewhere(
    extra: Action,
    writes: tuple[Action, ...],
    schemas: Mapping[str, dict[str, Any]],
    neighbours: Neighbours,
) -> Iterator[Wrong]:
    for argument, value, others in records_of([extra], schemas, neighbours):
        for other in others:
            what = f"{extra.tool} for {argument} {other}"
            yield "extra write", what, (*writes, on_record(extra, value, other))
    for argument, what, changed in argument_changes(extra, schemas[extra.tool], neighbours):
        yield "extra write", f"{extra.tool}, {argument} {what}", (*writes, changed[0])


def _given(checks: CheckFile) -> dict[str, list[Any]]:
    """Argument → values that the task's own runs give it, those of the golden run first."""
    runs = [checks.golden.actions, *(miss.actions for miss in checks.near_misses)]
    runs += [[checks.extra_write]] if checks.extra_write else []
    found: dict[str, list[Any]] = defaultdict(list)
    for action in (action for run in runs for action in run):
        for name, value in action.arguments.items():
            if value not in found[name]:
                found[name].append(value)
    return dict(found)


def _calls(task: task_pb2.Task, given: Mapping[str, list[Any]]) -> Iterator[Action]:
    """A call of each WRITE tool whose required arguments are all known, on the first record that the
    runs name; one for each of a few words where it takes a word of a closed list."""
    for tool in task.tools:
        if tool.access != task_pb2.TOOL_ACCESS_WRITE:
            continue
        schema = json.loads(tool.input_schema_json or "{}")
        properties = schema.get("properties", {})
        required = sorted(schema.get("required", ()))
        values = [_values(properties.get(name, {}), given.get(name, [])) for name in required]
        for chosen in product(*values):
            yield Action(tool=tool.name, arguments=dict(zip(required, chosen, strict=True)))


def _values(schema: dict[str, Any], given: list[Any]) -> list[Any]:
    words = [word for word in choices(schema) if word is not None]
    if words:
        return words[:MOST_WORDS]
    return given[:1]


def _shown(action: Action) -> str:
    values = ", ".join(str(value) for value in action.arguments.values())
    return f"{action.tool}({values})"[:120]
