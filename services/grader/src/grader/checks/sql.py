"""`sql`: the rows that a read-only query over the sealed state gave."""

from collections.abc import Sequence

from grader.checkset import SqlCheck
from grader.rows import canonical_text, parse_row
from grader.verdict import CannotRun, CheckResult

MAX_ROWS = 200
"""More rows than this is an error of the env-server, not a cut."""


def run(check: SqlCheck, rows_json: Sequence[str]) -> CheckResult:
    try:
        rows = [parse_row(text) for text in rows_json]
    except ValueError as error:
        raise CannotRun(f"the query's rows are unreadable: {error}") from error
    observed = canonical_text(rows)
    if check.expect is True:
        if len(rows) != 1 or len(rows[0]) != 1:
            raise CannotRun("the query must give one row with one column")
        (value,) = rows[0].values()
        if not isinstance(value, bool) and value is not None:
            raise CannotRun(f"the query must give true or false, not {canonical_text(value)}")
        passed, expected = value is True, "true"
    else:
        expected = canonical_text(check.expect)
        passed = observed == expected
    return CheckResult(
        name=check.name, kind=check.kind, passed=passed, expected=expected, observed=observed
    )
