"""`state`: the episode's net row changes equal those of the golden run.

Both start from one state, so equal changes mean equal final states. Rows are compared as canonical
text, as a multiset, after what the check declares: `comparable.py` applies it, `matching.py` pairs
the rows of the two runs.
"""

from collections.abc import Mapping, Sequence

from grader.check_kinds import AllowedRows, StateCheck
from grader.checks.comparable import Run, shown
from grader.checks.matching import Comparable, unmatched
from grader.evidence import Evidence, Table, row_of
from grader.golden import Golden
from grader.rows import Row, canonical_text
from grader.verdict import CannotRun, CheckResult

MAX_SHOWN = 20
"""Rows in `expected` and `observed`; the verdict's diff has all of them."""


def run(check: StateCheck, evidence: Evidence, golden: Golden) -> CheckResult:
    _refuse_unknown_names(check, evidence.tables)
    right = Run(check, evidence.tables, golden.as_changes())
    right.require_distinct()
    expected = right.rows()
    seen = Run(check, evidence.tables, evidence.changes)
    missing, extra = unmatched(expected, seen.rows())
    extra = _not_allowed(check.allow_rows, seen, extra)
    passed = not missing and not extra
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=passed,
        expected=f"the {len(expected)} row changes of the golden run"
        if passed
        else shown(missing, MAX_SHOWN),
        observed="the same" if passed else shown(extra, MAX_SHOWN),
    )


def _not_allowed(
    rules: Sequence[AllowedRows], seen: Run, extra: Sequence[Comparable]
) -> list[Comparable]:
    """Extra rows that no rule allows; the first rule that fits and has room takes a row."""
    room = [rule.at_most for rule in rules]
    left: list[Comparable] = []
    for row in extra:
        change = seen.changes[row.index]
        for place, rule in enumerate(rules):
            fits = change.op == "insert" and change.table == rule.table
            if room[place] and fits and has_values(row_of(change), rule.where):
                room[place] -= 1
                break
        else:
            left.append(row)
    return left


def has_values(row: Row, values: Mapping[str, object]) -> bool:
    """Whether the row has each of these values, numbers compared as numbers."""
    return all(
        column in row and canonical_text(row[column]) == canonical_text(value)
        for column, value in values.items()
    )


def _refuse_unknown_names(check: StateCheck, tables: Mapping[str, Table]) -> None:
    """A misspelt table or column would loosen nothing, silently."""
    columns = {f"{table.name}.{column}" for table in tables.values() for column in table.columns}
    named_tables = {*check.keys, *check.refs.values(), *check.allow_tables}
    named_tables |= {rule.table for rule in check.allow_rows}
    named_columns = {*check.unstable, *check.ignore, *check.refs, *check.json_text}
    named_columns |= {*check.tolerance, *check.windows}
    named_columns |= {".".join(path.split(".")[:2]) for path in check.unordered}
    named_columns |= {f"{table}.{column}" for table, key in check.keys.items() for column in key}
    named_columns |= {
        f"{rule.table}.{column}" for rule in check.allow_rows for column in rule.where
    }
    unknown = sorted((named_tables - set(tables)) | (named_columns - columns))
    if unknown:
        raise CannotRun(f"the world has no {', '.join(unknown)}")
    for target in sorted(set(check.refs.values())):
        if len(tables[target].key_columns) != 1:
            raise CannotRun(f"refs: {target} has a primary key of several columns")
