"""Which task of a training pool comes next. Pure: no clock, no wire, no framework.

The tasks are gone through again and again, each pass in an order that seed and pass number fix. A
task whose groups teach nothing is parked for some updates, longer each time; one that cannot run is
parked for good. With `reband_after` a task's band of difficulty is looked at again, each time that so
many of its attempts were rewarded: one that has become too hard or too easy rests likewise.
"""

import bisect
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HOPELESS, SATURATED, UNCLEAN, NOT_RUNNABLE = "hopeless", "saturated", "refill_cap", "not_runnable"
FOR_GOOD = 1 << 62
EDGES = (0.08, 0.40, 0.60, 0.90)
BANDS = TOO_HARD, _, _, _, TOO_EASY = ("too_hard", "hard", "medium", "easy", "too_easy")
"""Of difficulty, by pass rate between the edges; the ones that a probe finds."""


def band(passed: int, clean: int) -> str:
    """Where the mean of the Jeffreys posterior lies, (k + 1/2) / (n + 1)."""
    return BANDS[bisect.bisect_right(EDGES, (passed + 0.5) / (clean + 1))]


@dataclass(frozen=True, slots=True)
class Turn:
    """One group to be: `ordinal` counts the places of all passes, skipped ones included."""

    ordinal: int
    index: int
    number: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Parking:
    after: int = 3
    """Groups in a row with all rewards equal before a task is parked."""
    updates: int = 5
    """Length of the first stay; it doubles each time."""
    per_update: int = 2
    """Groups of one task replaced within one update, before it is passed over until the next."""


class Pool:
    def __init__(self, size: int, seed: int, parking: Parking, reband_after: int = 0):
        """`reband_after` attempts with a reward between two looks at a task's band; 0: none."""
        self._size, self._seed, self._parking = size, seed, parking
        self._reband_after = reband_after
        self._results: dict[int, list[float]] = {}
        self._bands: dict[int, str] = {}
        self._rests: Counter[int] = Counter()
        self._next = 0
        self._order: tuple[int, list[int]] = (-1, [])
        self._streak: Counter[tuple[int, str]] = Counter()
        self._stays: Counter[int] = Counter()
        self._until: dict[int, tuple[int, str]] = {}
        self._replaced: Counter[int] = Counter()
        self._update = 0

    def order(self, number: int) -> list[int]:
        """Task indices of pass `number`."""
        if self._order[0] != number:
            indices = list(range(self._size))
            random.Random(f"{self._seed}:{number}").shuffle(indices)
            self._order = (number, indices)
        return self._order[1]

    def place(self, index: int, number: int) -> int:
        """Ordinal of a task's turn in pass `number`."""
        return number * self._size + self.order(number).index(index)

    def parked(self) -> dict[int, str]:
        """Reason by task index of those that are left out now."""
        return {i: why for i, (until, why) in self._until.items() if until > self._update}

    def bands(self) -> dict[int, str]:
        """Band by task index, of those that were looked at."""
        return dict(self._bands)

    def results(self, index: int, rewards: Sequence[float]) -> None:
        """Rewards of a group that was published or replaced."""
        if not self._reband_after:
            return
        found = self._results.setdefault(index, [])
        found += rewards
        if len(found) < self._reband_after:
            return
        self._bands[index] = now = band(sum(reward > 0 for reward in found), len(found))
        # The next look is at what the policy does then, and not at what it did long ago.
        found.clear()
        if now in (TOO_HARD, TOO_EASY):
            stay = self._parking.updates << min(self._rests[index], 10)
            self._rests[index] += 1
            self._until[index] = (self._update + stay, now)
        else:
            self._rests.pop(index, None)

    def next(self) -> Turn | None:
        """The next turn of a task that is not parked; None when none can run at all."""
        for relaxed in (False, True):
            for ordinal in range(self._next, self._next + 2 * self._size):
                index = self.order(ordinal // self._size)[ordinal % self._size]
                if self._is_free(index, relaxed):
                    self._next = ordinal + 1
                    return Turn(ordinal, index, ordinal // self._size)
        return None

    def skip_to(self, ordinal: int) -> None:
        """Turns up to and with this one were taken before a restart."""
        self._next = max(self._next, ordinal + 1)

    def begin_update(self, update: int) -> None:
        """The groups of update number `update` are being collected now."""
        if update != self._update:
            self._update = update
            self._replaced.clear()

    def useful(self, index: int) -> None:
        for kind in (HOPELESS, SATURATED):
            self._streak.pop((index, kind), None)
        self._stays.pop(index, None)

    def equal_rewards(self, index: int, reward: float) -> None:
        kind = SATURATED if reward > 0 else HOPELESS
        other = HOPELESS if reward > 0 else SATURATED
        self._streak.pop((index, other), None)
        self._streak[index, kind] += 1
        self._replaced[index] += 1
        if self._streak[index, kind] >= self._parking.after:
            self._park(index, kind)

    def unclean(self, index: int) -> None:
        """No clean group within the cap of attempts."""
        self._park(index, UNCLEAN)

    def not_runnable(self, index: int) -> None:
        self._until[index] = (FOR_GOOD, NOT_RUNNABLE)

    def _park(self, index: int, why: str) -> None:
        stay = self._parking.updates << min(self._stays[index], 10)
        self._stays[index] += 1
        self._until[index] = (self._update + stay, why)

    def _is_free(self, index: int, relaxed: bool) -> bool:
        """`relaxed`: rather a parked task than none."""
        until, _ = self._until.get(index, (0, ""))
        if relaxed:
            return until < FOR_GOOD
        return until <= self._update and self._replaced[index] < self._parking.per_update
