"""The changes of one run in the form in which a `state` check compares two runs."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from grader.check_kinds import StateCheck, span_seconds
from grader.checks.matching import Comparable
from grader.evidence import Change, Table, row_of
from grader.rows import Row, canonical_text, parse_json, parse_row
from grader.verdict import CannotRun

_MAX_REFERENCE_DEPTH = 8


class Run:
    """One run's changes under a check's declarations."""

    def __init__(self, check: StateCheck, tables: Mapping[str, Table], changes: Sequence[Change]):
        self.changes = [c for c in changes if c.table not in check.allow_tables]
        self._check = check
        self._tables = tables
        self._unstable = _columns(check.unstable)
        self._ignored = _columns(check.ignore)
        self._json = _columns(check.json_text)
        self._slack = {
            tuple(name.split(".")): Decimal(repr(t)) for name, t in check.tolerance.items()
        }
        self._slack |= {
            tuple(name.split(".")): Decimal(span_seconds(s)) for name, s in check.windows.items()
        }
        self._timed = _columns([*check.windows])
        self._unordered = [tuple(path.split(".")) for path in check.unordered]
        self._made: dict[tuple[str, str], Row] = {}
        for change in self.changes:
            key_columns = tables[change.table].key_columns
            if change.op == "insert" and change.table in check.keys and len(key_columns) == 1:
                row = row_of(change)
                self._made[change.table, canonical_text(row[key_columns[0]])] = row

    def rows(self) -> list[Comparable]:
        """One for each change that counts, in the order of the changes."""
        found = (self._comparable(index, change) for index, change in enumerate(self.changes))
        return [row for row in found if row is not None]

    def require_distinct(self) -> None:
        """CannotRun when two new rows that are referred to share one natural key: which of them a
        reference means could then not be told."""
        for target in sorted(set(self._check.refs.values())):
            keys = [
                canonical_text(
                    [self._resolve(target, c, row[c], 0) for c in self._check.keys[target]]
                )
                for (table, _), row in self._made.items()
                if table == target
            ]
            if len(set(keys)) != len(keys):
                raise CannotRun(f"keys of {target}: two new rows of the golden run share one")

    def _comparable(self, index: int, change: Change) -> Comparable | None:
        """None where only ignored columns changed."""
        if change.op == "delete":
            text = canonical_text(
                {"table": change.table, "op": change.op, "row": parse_row(change.key)}
            )
            return Comparable(text, shown=text, index=index)
        row = self._kept(change.table, row_of(change), new=change.op == "insert")
        if change.op == "update" and row == self._kept(
            change.table, parse_row(change.before), new=False
        ):
            return None
        stable = {c: v for c, v in row.items() if (change.table, c) not in self._unstable}
        shown = {"table": change.table, "op": change.op, "row": stable}
        values: list[Decimal] = []
        tolerances: list[Decimal] = []
        holed = dict(stable)
        for column in sorted(stable):
            tolerance = self._slack.get((change.table, column))
            value = (
                None if tolerance is None else self._number(change.table, column, stable[column])
            )
            if tolerance is not None and value is not None:
                holed[column] = {"within": tolerance}
                values.append(value)
                tolerances.append(tolerance)
        return Comparable(
            canonical_text({**shown, "row": holed}),
            tuple(values),
            tuple(tolerances),
            canonical_text(shown),
            index,
        )

    def _kept(self, table: str, row: Row, *, new: bool) -> Row:
        """The row without ignored columns and generated keys, in canonical form."""
        generated = new and table in self._check.keys
        dropped = {column for name, column in self._ignored if name == table}
        if generated:
            dropped |= set(self._tables[table].key_columns) - set(self._check.keys[table])
        return {
            column: self._canonical(table, column, value)
            for column, value in row.items()
            if column not in dropped
        }

    def _canonical(self, table: str, column: str, value: Any) -> Any:
        if (table, column) in self._json and isinstance(value, str):
            value = _parsed(value)
        if f"{table}.{column}" in self._check.refs:
            value = self._resolve(table, column, value, 0)
        for path in self._unordered:
            if path[:2] == (table, column):
                value = _sorted(value, path[2:])
        return value

    def _resolve(self, table: str, column: str, value: Any, depth: int) -> Any:
        """A reference to a generated key as the natural key of the row that it names."""
        if isinstance(value, list):
            return [self._resolve(table, column, item, depth) for item in value]
        target = self._check.refs.get(f"{table}.{column}")
        made = self._made.get((target, canonical_text(value))) if target else None
        if target is None or made is None:
            return value
        if depth == _MAX_REFERENCE_DEPTH:
            raise CannotRun(f"refs of {table}.{column} go in a circle")
        natural = {
            name: self._resolve(target, name, made[name], depth + 1)
            for name in self._check.keys[target]
        }
        return {target: natural}

    def _number(self, table: str, column: str, value: Any) -> Decimal | None:
        """The value as a number (a time in seconds); None when it is none, and so has no slack."""
        try:
            if (table, column) in self._timed:
                return _seconds(value)
            number = Decimal(value) if isinstance(value, str | Decimal) else None
        except (ValueError, InvalidOperation):
            return None
        return number if number is not None and number.is_finite() else None


def _columns(names: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(name.split(".")) for name in names}


def _parsed(text: str) -> Any:
    """JSON in a text column; text that is none stays as it is."""
    try:
        return parse_json(text)
    except ValueError:
        return text


def _sorted(value: Any, path: tuple[str, ...]) -> Any:
    """`value` with the arrays at `path` in canonical order; arrays on the way are walked through."""
    if isinstance(value, list):
        if path:
            return [_sorted(item, path) for item in value]
        return sorted(value, key=canonical_text)
    if isinstance(value, dict) and path and path[0] in value:
        return {**value, path[0]: _sorted(value[path[0]], path[1:])}
    return value


def _seconds(value: Any) -> Decimal | None:
    """Seconds since 1970; a time without a zone is read as UTC. ValueError when it is no time."""
    if not isinstance(value, str):
        return None
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return Decimal(since.days * 86_400 + since.seconds) + Decimal(since.microseconds) / 1_000_000


def shown(rows: Sequence[Comparable], most: int) -> str:
    """The rows as a JSON array for people; what is left out is counted."""
    texts = sorted(row.shown for row in rows)
    left_out = len(texts) - most
    if left_out > 0:
        texts = [*texts[:most], json.dumps(f"and {left_out} more")]
    return "[" + ",".join(texts) + "]"
