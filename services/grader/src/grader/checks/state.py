"""`state`: the episode's net row changes equal those of the golden run.

Both start from one state, so equal changes mean equal final states. Rows are compared as canonical
text, as a multiset, after what the check declares unstable is taken out: columns, whole tables, and
primary keys that were generated (the row is then known by its natural key, and so are references
to it).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from grader.checkset import StateCheck
from grader.evidence import Change, Evidence, Table, row_of
from grader.golden import Golden
from grader.rows import Row, canonical_text, parse_row
from grader.verdict import CannotRun, CheckResult

_MAX_REFERENCE_DEPTH = 8


def run(check: StateCheck, evidence: Evidence, golden: Golden) -> CheckResult:
    _refuse_unknown_names(check, evidence.tables)
    observed = _Comparable(check, evidence.tables, evidence.changes).texts()
    expected = _Comparable(check, evidence.tables, golden.as_changes()).texts()
    missing, extra = expected - observed, observed - expected
    passed = not missing and not extra
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=passed,
        expected=f"the {expected.total()} row changes of the golden run"
        if passed
        else _as_json(missing),
        observed="the same" if passed else _as_json(extra),
    )


class _Comparable:
    """The changes of one run in the form in which two runs are compared."""

    def __init__(self, check: StateCheck, tables: Mapping[str, Table], changes: Sequence[Change]):
        self._check = check
        self._tables = tables
        self._changes = [c for c in changes if c.table not in check.allow_tables]
        self._unstable = {tuple(name.split(".")) for name in check.unstable}
        self._made: dict[tuple[str, str], Row] = {}
        for change in self._changes:
            key_columns = tables[change.table].key_columns
            if change.op == "insert" and change.table in check.keys and len(key_columns) == 1:
                row = row_of(change)
                self._made[change.table, canonical_text(row[key_columns[0]])] = row

    def texts(self) -> Counter[str]:
        return Counter(text for text in map(self._text, self._changes) if text is not None)

    def _text(self, change: Change) -> str | None:
        """None where only unstable columns changed."""
        generated = change.op == "insert" and change.table in self._check.keys
        row = self._stable(change.table, row_of(change), without_key=generated)
        if change.op == "update" and row == self._stable(
            change.table, parse_row(change.before), without_key=False
        ):
            return None
        shown: dict[str, Any] = {"table": change.table, "op": change.op, "row": row}
        if change.op == "delete":
            shown["row"] = parse_row(change.key)
        return canonical_text(shown)

    def _stable(self, table: str, row: Row, *, without_key: bool) -> Row:
        dropped = {column for name, column in self._unstable if name == table}
        if without_key:
            dropped |= set(self._tables[table].key_columns) - set(self._check.keys[table])
        return {
            column: self._resolve(table, column, value, 0)
            for column, value in row.items()
            if column not in dropped
        }

    def _resolve(self, table: str, column: str, value: Any, depth: int) -> Any:
        """A reference to a generated key as the natural key of the row that it names."""
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


def _refuse_unknown_names(check: StateCheck, tables: Mapping[str, Table]) -> None:
    """A misspelt table or column would loosen nothing, silently."""
    columns = {f"{table.name}.{column}" for table in tables.values() for column in table.columns}
    named_tables = {*check.keys, *check.refs.values(), *check.allow_tables}
    named_columns = {*check.unstable, *check.refs}
    named_columns |= {f"{table}.{column}" for table, key in check.keys.items() for column in key}
    unknown = sorted((named_tables - set(tables)) | (named_columns - columns))
    if unknown:
        raise CannotRun(f"the world has no {', '.join(unknown)}")


def _as_json(texts: Counter[str]) -> str:
    return "[" + ",".join(sorted(texts.elements())) + "]"
