"""What a training job starts, and what becomes of the groups it formed. Pure.

The learner takes groups in the order in which they are published, `groups_per_update` for each
update, and refuses a group whose oldest token is more than `staleness` versions behind. So the
place of a group in the stream decides under which version it is consumed, and whether it will be
admitted is known when it is published, and (if nothing overtakes it) when it starts.

Groups are published in the order in which they started. Nothing overtakes a slow group, so no group
is lost for having been slow, and what is trained does not depend on who was fast.
"""

import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from rollout_gateway.pool import Pool, Turn

ESTIMATE_OVER = 64
"""Formed groups over which the share of equal rewards is estimated."""
PRIOR = 4


class Decision(StrEnum):
    PUBLISH = "published"
    FILL = "filled"
    """Published with equal rewards: the update's cap on replacements is reached."""
    REPLACE = "zero_variance"
    STALE = "stale"
    SURPLUS = "surplus"
    """Everything owed is there without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRules:
    groups_per_update: int
    updates_per_version: int = 1
    staleness: int = 1
    spread: int = 1
    """Largest difference of version numbers within a group."""
    updates: int = 0
    """0: without end."""
    keep_zero_variance: bool = False
    max_replacements: int = 0
    """Per update."""
    oversampling: float = 2.0
    """Most groups in flight, as a multiple of those that are owed; 1 starts none on suspicion."""

    @property
    def groups_per_version(self) -> int:
        return self.groups_per_update * self.updates_per_version

    @property
    def owed(self) -> float:
        return self.updates * self.groups_per_update or math.inf


@dataclass(frozen=True, slots=True)
class View:
    """Where the run stands. The first version of a run is 0."""

    version: int
    """In service."""
    elsewhere: int
    """Groups of the run that other jobs published and the learner can use."""
    dropped: int
    """Groups of this job that the learner could not use."""


@dataclass(slots=True)
class _Group:
    turn: Turn
    oldest: int
    """Version: of its oldest token, or in service when it started."""
    rewards: tuple[float, ...] | None = None
    """Set when it is formed."""
    outcome: "Decision | str | None" = None


class StreamPlan:
    def __init__(self, rules: PlanRules, pool: Pool):
        self.rules, self.pool = rules, pool
        self.published = 0
        """Groups of this job, those that the learner dropped later included."""
        self.replaced = 0
        self.filled = 0
        self._groups: dict[int, _Group] = {}
        self._equal: deque[bool] = deque(maxlen=ESTIMATE_OVER)
        self._replaced_now = 0
        self._dropped = 0

    # starting

    def may_start(self, view: View) -> bool:
        """Whether one more group could still be admitted, and is owed."""
        self._dropped = view.dropped
        room = min(self._room(view), self.rules.owed - self._live())
        likely = sum(self._likelihood(group) for group in self._groups.values())
        return likely < room and len(self._groups) < math.ceil(room * self.rules.oversampling)

    def start(self, view: View) -> Turn | None:
        """The next group; None when no task of the pool can run."""
        self.pool.begin_update(self._update())
        turn = self.pool.next()
        if turn is not None:
            self._groups[turn.ordinal] = _Group(turn, view.version)
        return turn

    def resume(self, turn: Turn, oldest: int) -> None:
        """A group that was running when the process before this one ended."""
        self.pool.skip_to(turn.ordinal)
        self._groups[turn.ordinal] = _Group(turn, oldest)

    # ending

    def formed(self, ordinal: int, rewards: tuple[float, ...], oldest: int) -> None:
        group = self._groups[ordinal]
        group.rewards, group.oldest = rewards, oldest
        self._equal.append(_equal(rewards))

    def is_turn(self, ordinal: int) -> bool:
        """Whether every group that started before this one has its outcome."""
        return all(
            group.outcome is not None for other, group in self._groups.items() if other < ordinal
        )

    def decide(self, ordinal: int, view: View) -> Decision:
        """What becomes of a formed group whose turn it is."""
        self._dropped = view.dropped
        group = self._groups[ordinal]
        assert group.rewards is not None
        consumed_at = self._position(view) // self.rules.groups_per_version
        if max(view.version, consumed_at) - group.oldest > self.rules.staleness:
            decision = Decision.STALE
        elif self._live() >= self.rules.owed:
            decision = Decision.SURPLUS
        elif self.rules.keep_zero_variance or not _equal(group.rewards):
            decision = Decision.PUBLISH
        elif self._replaced_now >= self.rules.max_replacements:
            decision = Decision.FILL
        else:
            decision = Decision.REPLACE
        self.ended(ordinal, decision)
        return decision

    def ended(self, ordinal: int, outcome: Decision | str) -> None:
        """A group has its outcome: a decision, or the reason for which it was cancelled."""
        group = self._groups.get(ordinal)
        if group is None or group.outcome is not None:
            return
        group.outcome = outcome
        for first in sorted(self._groups):
            if self._groups[first].outcome is None:
                break
            self._settle(self._groups.pop(first))

    def restore(self, turn: Turn, outcome: str, rewards: tuple[float, ...]) -> None:
        """A group that ended before a restart; called in ordinal order, running ones between."""
        self.pool.skip_to(turn.ordinal)
        self._groups[turn.ordinal] = _Group(turn, 0, rewards)
        equal = _equal(rewards) and not self.rules.keep_zero_variance
        if outcome in (Decision.PUBLISH, Decision.REPLACE):
            self._equal.append(_equal(rewards))
        filled = outcome == Decision.PUBLISH and equal
        self.ended(turn.ordinal, Decision.FILL if filled else outcome)

    def lost(self, view: View) -> dict[int, Decision]:
        """Groups in flight that are of no use any more, wherever they end."""
        self._dropped = view.dropped
        full = self._live() >= self.rules.owed
        return {
            ordinal: Decision.SURPLUS if full else Decision.STALE
            for ordinal, group in self._groups.items()
            if group.outcome is None
            and (full or view.version - group.oldest > self.rules.staleness)
        }

    @property
    def in_flight(self) -> int:
        return len(self._groups)

    def is_delivered(self, view: View) -> bool:
        """Whether everything owed is published and nothing of it was dropped so far."""
        self._dropped = view.dropped
        return self._live() >= self.rules.owed and not self._groups

    def is_consumed(self, view: View) -> bool:
        """Whether the version in service was trained on all that was published."""
        return view.version * self.rules.groups_per_version >= view.elsewhere + self._live()

    # the arithmetic

    def _live(self) -> int:
        return self.published + self._pending() - self._dropped

    def _pending(self) -> int:
        """Decided to be published, behind a group that is not decided (after a restart only)."""
        done = (Decision.PUBLISH, Decision.FILL)
        return sum(group.outcome in done for group in self._groups.values())

    def _position(self, view: View) -> int:
        """Place in the stream that the next published group gets; its update follows from it."""
        consumed = view.version * self.rules.groups_per_version
        return max(view.elsewhere + self._live(), consumed)

    def _room(self, view: View) -> int:
        """Groups that may be in flight, so that the last of them is not too old when consumed."""
        oldest = min([view.version, *(g.oldest for g in self._groups.values() if not g.outcome)])
        ahead = min(self.rules.staleness, self.rules.spread)
        # The group of the oldest version must not be overtaken by updates that would make it stale.
        last = min(view.version + self.rules.staleness, oldest + ahead) + 1
        return last * self.rules.groups_per_version - self._position(view)

    def _likelihood(self, group: _Group) -> float:
        """That a group in flight will count."""
        if group.outcome is not None:
            return 0.0
        if group.rewards is not None:
            may_fill = self._replaced_now >= self.rules.max_replacements
            keeps = self.rules.keep_zero_variance or may_fill or not _equal(group.rewards)
            return 1.0 if keeps else 0.0
        if self.rules.keep_zero_variance:
            return 1.0
        return 1.0 - sum(self._equal) / (len(self._equal) + PRIOR)

    def _update(self) -> int:
        return max(0, self.published - self._dropped) // self.rules.groups_per_update

    def _settle(self, group: _Group) -> None:
        """Count an outcome, in ordinal order."""
        before, index = self._update(), group.turn.index
        self.pool.begin_update(before)
        match group.outcome:
            case Decision.PUBLISH | Decision.FILL:
                self.published += 1
                if group.outcome is Decision.FILL:
                    self.filled += 1
                    self.pool.equal_rewards(index, (group.rewards or (0.0,))[0])
                else:
                    self.pool.useful(index)
            case Decision.REPLACE:
                self.replaced += 1
                self._replaced_now += 1
                self.pool.equal_rewards(index, (group.rewards or (0.0,))[0])
            case "refill_cap":
                self.pool.unclean(index)
            case "not_runnable":
                self.pool.not_runnable(index)
        if group.outcome in (Decision.PUBLISH, Decision.FILL, Decision.REPLACE):
            self.pool.results(index, group.rewards or ())
        if self._update() != before:
            self._replaced_now = 0


def _equal(rewards: tuple[float, ...]) -> bool:
    return len(rewards) > 1 and len(set(rewards)) == 1
