"""`python`: a function in a sandbox, for what no other kind can say."""

from collections.abc import Mapping, Sequence
from typing import Any

from grader.check_kinds import PythonCheck
from grader.evidence import Evidence
from grader.rows import plain
from grader.sandbox.sandbox import Sandbox
from grader.verdict import CheckResult


async def run(
    check: PythonCheck,
    evidence: Evidence,
    reply: str,
    rows: Mapping[str, Sequence[str]],
    sandbox: Sandbox,
) -> CheckResult:
    changes = [
        {
            "table": change.table,
            "op": change.op,
            "key": plain(change.key),
            "before": plain(change.before) if change.before else None,
            "after": plain(change.after) if change.after else None,
        }
        for change in evidence.changes
    ]
    asked: dict[str, Any] = {name: [plain(row) for row in found] for name, found in rows.items()}
    outcome = await sandbox.run(check.code, changes, reply, asked)
    return CheckResult(
        name=check.name,
        kind=check.kind,
        passed=outcome.outcome == "pass",
        expected="check() answers True",
        observed="True" if outcome.outcome == "pass" else outcome.detail,
    )
