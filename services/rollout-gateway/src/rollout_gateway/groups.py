"""How a group comes to its one end. Pure: no clock, no wire, no framework.

A group owes G samples of one task. Each slot has at most one attempt running; a failed one is run
again alone, up to a cap. The group ends exactly once: formed, with G clean samples that belong
together, or cancelled with one reason. It is never padded, copied or shrunk.
"""

from dataclasses import dataclass
from enum import StrEnum


class CancelReason(StrEnum):
    REFILL_CAP = "refill_cap"
    ZERO_VARIANCE = "zero_variance"
    STALE = "stale"
    JOB_CANCELLED = "job_cancelled"
    INCONSISTENT = "inconsistent"
    NOT_RUNNABLE = "not_runnable"
    SURPLUS = "surplus"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One clean attempt, as far as its group must know it."""

    slot: int
    attempt: int
    reward: float
    task_hash: str
    initial_state_hash: str
    oldest_version: int
    """Of the policy versions that sampled its tokens."""
    newest_version: int


@dataclass(frozen=True, slots=True)
class Formed:
    samples: tuple[Sample, ...]
    """Slot order, one each."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: CancelReason


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    task_hash: str
    size: int
    attempts_per_slot: int
    """Attempts without reward of one slot before the group is given up."""
    max_version_spread: int
    keep_zero_variance: bool
    only_version: int | None = None
    """Samples of any other policy version end the group."""


class GroupState:
    def __init__(self, rules: Rules):
        if rules.size < 1 or rules.attempts_per_slot < 1:
            raise ValueError("a group needs at least one slot and one attempt per slot")
        self._rules = rules
        self._samples: dict[int, Sample] = {}
        self._running: dict[int, int] = {}
        self._last_attempt = dict.fromkeys(range(rules.size), 0)
        self._failures = dict.fromkeys(range(rules.size), 0)
        self.outcome: Formed | Cancelled | None = None
        """Set once; nothing changes it afterwards."""

    @property
    def refilled(self) -> int:
        """Attempts that had no reward."""
        return sum(self._failures.values())

    @property
    def rewards(self) -> list[float]:
        """Of the clean samples that exist, in slot order."""
        return [self._samples[slot].reward for slot in sorted(self._samples)]

    @property
    def oldest_version(self) -> int:
        """That sampled a token of its clean samples; 0 while there is none."""
        return min((sample.oldest_version for sample in self._samples.values()), default=0)

    def failures(self, slot: int) -> int:
        return self._failures[slot]

    def resume(self, slot: int, attempt: int) -> None:
        """This attempt was running before a restart; its end is reported next."""
        self.skip_attempt(slot, attempt)
        if self.outcome is None and slot not in self._samples:
            self._running[slot] = attempt

    def skip_attempt(self, slot: int, attempt: int) -> None:
        """This number was used already, by an attempt that does not count."""
        self._last_attempt[slot] = max(self._last_attempt[slot], attempt)

    def take_owed(self) -> list[tuple[int, int]]:
        """(slot, attempt) of everything that must start now; it counts as running from here on."""
        if self.outcome is not None:
            return []
        owed = [s for s in self._last_attempt if s not in self._running and s not in self._samples]
        for slot in owed:
            self._last_attempt[slot] += 1
            self._running[slot] = self._last_attempt[slot]
        return [(slot, self._running[slot]) for slot in owed]

    def arrived(self, sample: Sample) -> bool:
        """A clean sample; False when it was not waited for (late, twice, after the end)."""
        if not self._ends(sample.slot, sample.attempt):
            return False
        self._samples[sample.slot] = sample
        if len(self._samples) == self._rules.size:
            self.outcome = self._close()
        return True

    def failed(self, slot: int, attempt: int, *, final: bool = False) -> bool:
        """An attempt without reward; `final` when a further attempt cannot fare better."""
        if not self._ends(slot, attempt):
            return False
        self._failures[slot] += 1
        if final:
            self.outcome = Cancelled(CancelReason.NOT_RUNNABLE)
        elif self._failures[slot] >= self._rules.attempts_per_slot:
            self.outcome = Cancelled(CancelReason.REFILL_CAP)
        return True

    def cancel(self, reason: CancelReason) -> bool:
        """End the group from outside; False when it has ended already."""
        if self.outcome is not None:
            return False
        self.outcome = Cancelled(reason)
        self._running.clear()
        return True

    def _ends(self, slot: int, attempt: int) -> bool:
        if self.outcome is not None or self._running.get(slot) != attempt:
            return False
        del self._running[slot]
        return True

    def _close(self) -> Formed | Cancelled:
        rules = self._rules
        samples = tuple(self._samples[slot] for slot in range(rules.size))
        if {sample.task_hash for sample in samples} != {rules.task_hash}:
            return Cancelled(CancelReason.INCONSISTENT)
        if len({sample.initial_state_hash for sample in samples}) != 1:
            return Cancelled(CancelReason.INCONSISTENT)
        oldest = min(sample.oldest_version for sample in samples)
        newest = max(sample.newest_version for sample in samples)
        if newest - oldest > rules.max_version_spread:
            return Cancelled(CancelReason.STALE)
        if rules.only_version is not None and {oldest, newest} != {rules.only_version}:
            return Cancelled(CancelReason.STALE)
        equal = len({sample.reward for sample in samples}) == 1
        if equal and rules.size > 1 and not rules.keep_zero_variance:
            return Cancelled(CancelReason.ZERO_VARIANCE)
        return Formed(samples)
