"""`untouched`: no row of the named tables changed."""

from grader.checkset import UntouchedCheck
from grader.evidence import Evidence
from grader.verdict import CannotRun, CheckResult


def run(check: UntouchedCheck, evidence: Evidence) -> CheckResult:
    unknown = sorted(set(check.tables) - set(evidence.tables))
    if unknown:
        raise CannotRun(f"there is no table {', '.join(unknown)}")
    touched = sorted(set(check.tables) & evidence.changed_tables())
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=not touched,
        expected=f"no change in {', '.join(check.tables)}",
        observed=f"changed: {', '.join(touched)}" if touched else "no change",
    )
