"""`untouched`: no row of the named tables changed."""

from grader.check_kinds import UntouchedCheck
from grader.checks.state import has_values
from grader.evidence import Change, Evidence
from grader.rows import canonical_text, parse_row
from grader.verdict import CannotRun, CheckResult


def run(check: UntouchedCheck, evidence: Evidence) -> CheckResult:
    unknown = sorted(set(check.tables) - set(evidence.tables))
    unknown += [
        f"{table}.{column}"
        for table in check.tables
        for column in check.where
        if table in evidence.tables and column not in evidence.tables[table].columns
    ]
    if unknown:
        raise CannotRun(f"the world has no {', '.join(unknown)}")
    touched = sorted(
        {
            change.table
            for change in evidence.changes
            if change.table in check.tables and _counts(check, change)
        }
    )
    rows = f" where {canonical_text(check.where)}" if check.where else ""
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=not touched,
        expected=f"no change in {', '.join(check.tables)}{rows}",
        observed=f"changed: {', '.join(touched)}" if touched else "no change",
    )


def _counts(check: UntouchedCheck, change: Change) -> bool:
    """A row counts by what it was and by what it became: it must not slip out of the condition."""
    if not check.where:
        return True
    sides = [text for text in (change.before, change.after) if text]
    return any(has_values(parse_row(text), check.where) for text in sides)
