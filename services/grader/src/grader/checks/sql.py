"""`sql`: the rows that a read-only query over the sealed state gave."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from grader.check_kinds import SqlCheck
from grader.checks.matching import Comparable, near, unmatched
from grader.rows import Row, canonical_text, parse_row
from grader.verdict import CannotRun, CheckResult

MAX_ROWS = 200
"""More rows than this is an error of the env-server, not a cut."""


def run(check: SqlCheck, rows_json: Sequence[str]) -> CheckResult:
    try:
        rows = [parse_row(text) for text in rows_json]
    except ValueError as error:
        raise CannotRun(f"the query's rows are unreadable: {error}") from error
    if check.expect is True:
        passed, expected = _truth(rows), "true"
    else:
        passed, expected = _same(check, rows), canonical_text(check.expect)
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=passed,
        expected=expected,
        observed=canonical_text(rows),
    )


def _truth(rows: Sequence[Row]) -> bool:
    if len(rows) != 1 or len(rows[0]) != 1:
        raise CannotRun("the query must give one row with one column")
    (value,) = rows[0].values()
    if not isinstance(value, bool) and value is not None:
        raise CannotRun(f"the query must give true or false, not {canonical_text(value)}")
    return value is True


def _same(check: SqlCheck, rows: Sequence[Row]) -> bool:
    assert check.expect is not True
    expected = [_comparable(row, check.tolerance) for row in check.expect]
    observed = [_comparable(row, check.tolerance) for row in rows]
    if len(expected) != len(observed):
        return False
    if check.any_order:
        return not any(unmatched(expected, observed))
    return all(
        one.text == other.text and near(one, other)
        for one, other in zip(expected, observed, strict=True)
    )


def _comparable(row: Mapping[str, Any], tolerance: Mapping[str, float]) -> Comparable:
    holed: dict[str, Any] = dict(row)
    values: list[Decimal] = []
    tolerances: list[Decimal] = []
    for column in sorted(tolerance):
        value = row.get(column)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            holed[column] = {"within": tolerance[column]}
            values.append(value if isinstance(value, Decimal) else Decimal(repr(value)))
            tolerances.append(Decimal(repr(tolerance[column])))
    return Comparable(canonical_text(holed), tuple(values), tuple(tolerances))
