"""What a run of proofs found, over all tasks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.proof.mutants import LEAST_MUTANTS
from grader.proof.prover import TaskProof

MAX_EQUIVALENT_SHARE = 0.05
"""More declared equivalents than this share of the mutants, and the catalogue proves too little."""


@dataclass
class Report:
    """`failures` holds {"task", "reason"}; everything is proved when it is empty."""

    tasks: int = 0
    passed: int = 0
    mutants: int = 0
    mutants_killed: int = 0
    equivalent_declared: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)
    """Kind of mutant → {"mutants", "killed"}."""
    no_mutants: int = 0
    """Runs of the catalogue that ended in the golden state, whose calls have no order, or that the tools
    refuse where only accepted ones count; not in `mutants`."""
    idle_checks: list[dict[str, str]] = field(default_factory=list)
    """{"task", "check"}: checks of proved tasks that no wrong run failed; others do their work."""
    few_mutants: dict[str, int] = field(default_factory=dict)
    """Proved tasks with fewer than LEAST_MUTANTS, and how many they have."""
    empty_passes: list[str] = field(default_factory=list)
    """Tasks of datasets that a run without calls passes."""
    episodes: int = 0
    seconds: float = 0.0


def combine(proofs: Iterable[TaskProof], *, is_whole: bool) -> Report:
    """The report. Where whole domains were proved, tasks with few mutants fail, and the share of
    declared equivalents is judged: in a single task one of them is easily more than a twentieth."""
    report = Report()
    for proof in sorted(proofs, key=lambda proof: proof.task_id):
        report.tasks += 1
        report.passed += not proof.wrong
        report.failures += [{"task": proof.task_id, "reason": why} for why in proof.wrong]
        report.equivalent_declared += proof.equivalent
        report.no_mutants += proof.no_mutants
        if not proof.wrong:
            report.idle_checks += [
                {"task": proof.task_id, "check": name} for name in proof.idle_checks
            ]
        if proof.empty_passes:
            report.empty_passes.append(proof.task_id)
        made = sum(proof.made.values())
        # A task without any is judged by others' code, and nothing of ours is mutated.
        if not proof.wrong and 0 < made < LEAST_MUTANTS:
            report.few_mutants[proof.task_id] = made
        for kind, made in proof.made.items():
            counts = report.by_kind.setdefault(kind, {"mutants": 0, "killed": 0})
            counts["mutants"] += made
            counts["killed"] += proof.killed.get(kind, 0)
    if is_whole:
        report.failures += [
            {
                "task": task_id,
                "reason": f"only {made} mutants, and {LEAST_MUTANTS} are the least: declare near"
                " misses that the tools accept",
            }
            for task_id, made in report.few_mutants.items()
        ]
    report.by_kind = dict(sorted(report.by_kind.items()))
    report.mutants = sum(counts["mutants"] for counts in report.by_kind.values())
    report.mutants_killed = sum(counts["killed"] for counts in report.by_kind.values())
    if is_whole and report.equivalent_declared > MAX_EQUIVALENT_SHARE * report.mutants:
        report.failures.append(
            {
                "task": "all",
                "reason": f"{report.equivalent_declared} of {report.mutants} mutants are declared"
                f" equivalent, more than {MAX_EQUIVALENT_SHARE:.0%}",
            }
        )
    return report
