"""Attempts without reward: what excused them, and whether it falls on all alike. Pure.

An excuse that meets some tasks or some checkpoints more than others bends every figure: the attempts
that are left are not a fair sample. For each task and each checkpoint the share of excused attempts
is compared with that of all others by Fisher's exact test, two-sided, Holm-corrected within the
family.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from envfarm.attempt_row import AttemptRow
from scipy.stats import fisher_exact

CANCELLED = "cancelled"
"""Ended by us together with their group: neither excused nor owed a reward."""
LEVEL = 0.01
RULES = {
    "env": "the env-server did not do what was asked, or was not reached",
    "engine": "an engine's answer was missing, late or wrong",
    "user": "the simulated user had no answer",
    "grader": "the grader had no verdict",
    "clock": "our limit of wall time was reached",
    "gateway": "the attempt was cancelled",
}
"""Boundary → the rule that made the attempt ours and not the policy's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Excuse:
    status: str
    error_class: str
    boundary: str
    rule: str
    attempts: int
    example: str
    """Rollout id and raw error of the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uneven:
    """A task or checkpoint with another share of excused attempts than the rest."""

    family: str
    name: str
    excused: int
    attempts: int
    others_excused: int
    others_attempts: int
    p: float
    """Corrected."""

    @property
    def share(self) -> float:
        return self.excused / self.attempts

    @property
    def others_share(self) -> float:
        return self.others_excused / self.others_attempts


def excuses(rows: Iterable[AttemptRow]) -> list[Excuse]:
    """One per status, class and boundary, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], AttemptRow] = {}
    for row in rows:
        if row.reward is None:
            key = (row.status, row.error_class, row.boundary)
            counts[key] += 1
            first.setdefault(key, row)
    return [
        Excuse(
            status=key[0],
            error_class=key[1],
            boundary=key[2],
            rule=RULES.get(key[2], "unknown"),
            attempts=count,
            example=f"{first[key].rollout_id}: {first[key].message}",
        )
        for key, count in counts.most_common()
    ]


def uneven(rows: Sequence[AttemptRow]) -> list[Uneven]:
    """Tasks, then checkpoints, whose share of excused attempts is not that of the others."""
    owed = [row for row in rows if row.status != CANCELLED]
    return [
        *_family("task", owed, lambda row: row.task_id),
        *_family("checkpoint", owed, _checkpoint),
    ]


def _checkpoint(row: AttemptRow) -> str:
    number = row.policy_numbers[0] if row.policy_numbers else ""
    return f"{row.policy_run} {number or row.policy_hash[:12]}".strip()


def _family(
    family: str, rows: Sequence[AttemptRow], key: Callable[[AttemptRow], str]
) -> list[Uneven]:
    attempts = Counter(map(key, rows))
    excused = Counter(key(row) for row in rows if row.reward is None)
    total, all_excused = attempts.total(), excused.total()
    if len(attempts) < 2 or not all_excused:
        return []
    tested = []
    for name, count in attempts.items():
        bad, others, others_bad = excused[name], total - count, all_excused - excused[name]
        table = [[bad, count - bad], [others_bad, others - others_bad]]
        tested.append((float(fisher_exact(table).pvalue), name, bad, count, others_bad, others))  # pyright: ignore
    found, corrected = [], 0.0
    for rank, (p, name, bad, count, others_bad, others) in enumerate(sorted(tested)):
        corrected = max(corrected, min(1.0, p * (len(tested) - rank)))
        if corrected < LEVEL:
            found.append(
                Uneven(
                    family=family,
                    name=name,
                    excused=bad,
                    attempts=count,
                    others_excused=others_bad,
                    others_attempts=others,
                    p=corrected,
                )
            )
    return found
