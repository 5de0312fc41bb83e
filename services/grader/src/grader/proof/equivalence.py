"""Where a run ends otherwise than the golden run, and whether a person said that this is right."""

from collections.abc import Iterable

from grader.check_kinds import StateCheck
from grader.checkset import CheckFile, Equivalent
from grader.evidence import Change, row_of
from grader.golden import Golden
from grader.rows import canonical_text, parse_row

_SHORT = 4
"""Texts below this length are looked for as whole values, longer ones also inside others."""

Rows = dict[str, list[str]]
"""Table → primary keys as canonical text, in order."""


def differing_rows(observed: Iterable[Change], golden: Iterable[Change]) -> Rows:
    """Primary keys of the rows that end otherwise."""
    one = {(c.table, canonical_text(parse_row(c.key))): c.after for c in observed}
    other = {(c.table, canonical_text(parse_row(c.key))): c.after for c in golden}
    found: Rows = {}
    for table, key in sorted(one.keys() | other.keys()):
        # A row that only one of the runs changed is in the other as it was at the start.
        if (table, key) not in one or (table, key) not in other:
            found.setdefault(table, []).append(key)
        elif one[table, key] != other[table, key]:
            found.setdefault(table, []).append(key)
    return found


def unlike_declared(declared: Equivalent, rows: Rows) -> str:
    """What is wrong with a declaration; empty when it names exactly the rows that differ."""
    named = {
        table: sorted(canonical_text(key) for key in keys) for table, keys in declared.rows.items()
    }
    if named == {table: sorted(keys) for table, keys in rows.items()}:
        return ""
    return (
        f"`equivalent` for {declared.mutant!r} names {named}, and the rows that differ are {rows}"
    )


def free_texts(checks: CheckFile, golden: Golden) -> frozenset[str]:
    """Texts of the golden calls that end up only where every state check declares that the value may
    differ: whoever declared it has said that any text is right there."""
    states = [check for check in checks.checks if check.kind == "state"]
    texts = {
        value
        for action in checks.golden.actions
        for value in action.arguments.values()
        if isinstance(value, str)
    }
    places: dict[str, set[tuple[str, str]]] = {text: set() for text in texts}
    for change in golden.as_changes():
        for column, value in row_of(change).items():
            held = value if isinstance(value, str) else canonical_text(value)
            for text in texts:
                if held == text or (len(text) >= _SHORT and text in held):
                    places[text].add((change.table, column))
    return frozenset(
        text
        for text, found in places.items()
        if states and found and all(_is_loose(check, place) for check in states for place in found)
    )


def _is_loose(check: StateCheck, place: tuple[str, str]) -> bool:
    table, column = place
    return table in check.allow_tables or f"{table}.{column}" in (*check.unstable, *check.ignore)
