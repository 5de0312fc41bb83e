"""When to stop probing a task: a pure rule on (passed, clean), from the Jeffreys posterior.

One more run is worth making when it lowers the chance of naming the wrong band by more than it costs.
With the price of one run set to 1/worth, backward induction over all (passed, clean) up to the cap
gives the rule that is best on average under the Jeffreys prior (optimal stopping; DeGroot, "Optimal
Statistical Decisions", chapter 12). A run without reward changes nothing, so it needs no rule.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from envfarm_numbers import jeffreys


class Decision(StrEnum):
    """Whether to run a task again, and why not."""

    MORE = "more"
    CONFIDENT = "confident"
    """The band of maximum mass holds at least the asked confidence."""
    SETTLED = "settled"
    """More runs change the band too rarely for what they cost."""
    CAP = "cap"


@dataclass(frozen=True)
class StoppingRule:
    """ValueError when the limits contradict each other."""

    minimum: int = 3
    """Clean runs that every task gets."""
    cap: int = 128
    """Clean runs that no task exceeds."""
    confidence: float = 0.99
    """Posterior mass of the band at which a task is finished; above 1 for never."""
    worth: float = 400.0
    """Runs that one avoided wrong band is worth."""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.cap <= 1000:
            raise ValueError("1 ≤ minimum ≤ cap ≤ 1000 does not hold")
        if not self.confidence > 0.5:
            raise ValueError("the confidence is above 0.5")
        if not self.worth >= 1:
            raise ValueError("the worth is at least one run")

    def decide(self, passed: int, clean: int) -> Decision:
        """The state machine's only transition: what to do after `passed` of `clean` runs."""
        if not 0 <= passed <= clean:
            raise ValueError(f"{passed} of {clean} runs cannot have passed")
        if clean >= self.cap:
            return Decision.CAP
        if self._continues[clean][passed]:
            return Decision.MORE
        if self._masses[clean][passed] >= self.confidence:
            return Decision.CONFIDENT
        return Decision.SETTLED

    def should_continue(self, passed: int, clean: int) -> bool:
        return self.decide(passed, clean) is Decision.MORE

    def expected_more(self, passed: int = 0, clean: int = 0) -> float:
        """Further clean runs that the posterior expects; the forecast of a probe's cost."""
        return float(self._expected[clean][passed]) if clean < self.cap else 0.0

    def surely_more(self, passed: int = 0, clean: int = 0) -> int:
        """Further clean runs that every course of events needs: may be run at once without waste."""
        return int(self._surely[clean][passed]) if clean < self.cap else 0

    @cached_property
    def _masses(self) -> list[NDArray[np.float64]]:
        """[clean][passed]: mass of the band of maximum mass."""
        return [
            jeffreys.band_masses(np.arange(clean + 1), clean).max(axis=-1)
            for clean in range(self.cap + 1)
        ]

    @cached_property
    def _continues(self) -> list[NDArray[np.bool_]]:
        """[clean][passed]: backward induction on the smallest expected loss."""
        loss = 1 - self._masses[self.cap]
        found: list[NDArray[np.bool_]] = []
        for clean in range(self.cap - 1, -1, -1):
            mass, rate = self._masses[clean], (np.arange(clean + 1) + 0.5) / (clean + 1)
            going = 1 / self.worth + rate * loss[1:] + (1 - rate) * loss[:-1]
            more = (going < 1 - mass) & (mass < self.confidence) | (clean < self.minimum)
            loss = np.where(more, going, 1 - mass)
            found.append(more)
        return found[::-1]

    @cached_property
    def _expected(self) -> list[NDArray[np.float64]]:
        after, found = np.zeros(self.cap + 1), []
        for clean in range(self.cap - 1, -1, -1):
            rate = (np.arange(clean + 1) + 0.5) / (clean + 1)
            going = 1 + rate * after[1:] + (1 - rate) * after[:-1]
            after = np.where(self._continues[clean], going, 0.0)
            found.append(after)
        return found[::-1]

    @cached_property
    def _surely(self) -> list[NDArray[np.int64]]:
        after, found = np.zeros(self.cap + 1, dtype=np.int64), []
        for clean in range(self.cap - 1, -1, -1):
            after = np.where(self._continues[clean], 1 + np.minimum(after[1:], after[:-1]), 0)
            found.append(after)
        return found[::-1]
