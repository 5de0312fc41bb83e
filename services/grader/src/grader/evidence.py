"""What a check may see of a final state, and the promises that evidence must keep.

No wire here: `evidence_client.py` reads it from an env-server, `dsn_state.py` from a database and
`table_state.py` from tables in a request.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from envfarm.canonical import content_hash
from envfarm.errors import EvidenceError

from grader.rows import Row, canonical_text, parse_row

Op = Literal["insert", "update", "delete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of the sealed state."""

    name: str
    rows: int
    hash: str
    key_columns: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One net row change; `before` and `after` are the rows as sent, empty where there is none."""

    table: str
    op: Op
    key: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A final state beside the initial one."""

    episode_id: str
    """Empty unless it came from an env-server."""
    task_id: str
    task_hash: str
    world_id: str = ""
    world_hash: str
    initial_state_hash: str
    final_state_hash: str
    tables: Mapping[str, Table]
    changes: Sequence[Change]
    leftovers: Sequence[str] = ()
    """Triggers, rules, functions and the like that the world does not have, by name."""

    def changed_tables(self) -> set[str]:
        return {change.table for change in self.changes}


def verified(evidence: Evidence) -> Evidence:
    """The evidence with its changes in order, if it is whole and agrees with itself; EvidenceError
    otherwise."""
    stated = content_hash({table.name: table.hash for table in evidence.tables.values()})
    if stated != evidence.final_state_hash:
        raise EvidenceError("the final state hash is not the hash of the table hashes")
    changed = bool(evidence.changes)
    if changed == (evidence.initial_state_hash == evidence.final_state_hash):
        raise EvidenceError(
            f"the state hash says {'unchanged' if changed else 'changed'}"
            f" and the diff has {len(evidence.changes)} changes"
        )
    seen: set[tuple[str, str]] = set()
    for change in evidence.changes:
        _verify_change(change, evidence.tables)
        identity = (change.table, change.key)
        if identity in seen:
            raise EvidenceError(f"{change.table} {change.key} stands in the diff twice")
        seen.add(identity)
    ordered = sorted(evidence.changes, key=lambda change: (change.table, change.key))
    return replace(evidence, changes=tuple(ordered))


def changes_by_table(changes: Iterable[Change]) -> dict[str, set[Change]]:
    """Changes as sent, table by table."""
    result: defaultdict[str, set[Change]] = defaultdict(set)
    for change in changes:
        result[change.table].add(change)
    return dict(result)


def row_of(change: Change) -> Row:
    """The row after the change, or before a delete."""
    return parse_row(change.after or change.before)


def _verify_change(change: Change, tables: Mapping[str, Table]) -> None:
    where = f"{change.table} {change.key}"
    table = tables.get(change.table)
    if table is None:
        raise EvidenceError(f"{where}: the diff names a table that the header does not")
    if (bool(change.before), bool(change.after)) != (change.op != "insert", change.op != "delete"):
        raise EvidenceError(f"{where}: the rows of a {change.op} are not the ones given")
    if change.before == change.after:
        raise EvidenceError(f"{where}: before and after are the same row")
    try:
        key = canonical_text(parse_row(change.key))
        for text in filter(None, (change.before, change.after)):
            row = parse_row(text)
            if set(row) != set(table.columns):
                raise EvidenceError(f"{where}: the row has other columns than the table")
            if canonical_text({column: row[column] for column in table.key_columns}) != key:
                raise EvidenceError(f"{where}: the row has another primary key")
    except ValueError as error:
        raise EvidenceError(f"{where}: {error}") from error
