"""One random life of a training job: groups and their plan, a learner, and everything that can happen.

The real `GroupState`, `StreamPlan` and `Pool` run; engines, disk and Redis are a few lists. Attempts
succeed, fail and hang, the gateway is killed and goes on from what is on record, the learner goes
back to a checkpoint and refuses groups, the job is cancelled and resumed. At some step the faults
stop; from then on the job must end within a bounded number of steps.
"""

import random
from dataclasses import dataclass, field

from rollout_gateway.groups import Cancelled, CancelReason, Formed, GroupState, Rules, Sample
from rollout_gateway.pool import Parking, Pool, Turn
from rollout_gateway.stream_plan import Decision, PlanRules, StreamPlan, View

TASK = "t" * 64
MOST_STEPS = 6000


@dataclass
class Live:
    turn: Turn
    state: GroupState
    running: list[tuple[int, int]]
    begun_at: dict[tuple[int, int], int] = field(default_factory=dict)


class History:
    def __init__(self, seed: int):
        self.chance = chance = random.Random(seed)
        self.size = chance.randint(1, 4)
        self.tasks = chance.randint(1, 5)
        self.rules = PlanRules(
            groups_per_update=chance.randint(1, 3),
            staleness=chance.randint(0, 2),
            updates=chance.randint(1, 4),
            max_replacements=chance.randint(0, 4),
            oversampling=chance.choice((1.0, 2.0)),
        )
        self.faults_until = chance.randint(0, 150)
        self.version = self.checkpoint = 0
        self.outcomes: dict[int, tuple[Turn, str, tuple[float, ...]]] = {}
        self.samples: dict[int, list[Sample]] = {}
        self.turns: dict[int, Turn] = {}
        self.outbox: dict[int, tuple[tuple[float, ...], int]] = {}
        self.stream: list[tuple[int, int]] = []
        """(ordinal, oldest version) in the order of publication."""
        self.dropped: set[int] = set()
        self.trained: list[int] = []
        self._start_gateway()

    # what the processes do

    def run(self) -> int:
        """Steps until the end; AssertionError when an invariant breaks or it never ends."""
        for step in range(MOST_STEPS):
            if self._is_done():
                self._check()
                return step
            faulty = step < self.faults_until
            if faulty and self.chance.random() < 0.06:
                self.chance.choice((self._start_gateway, self._rollback, self._cancel_and_resume))()
            else:
                self.chance.choice((self._start, self._attempt, self._attempt, self._decide))(
                    faulty
                )
            self._learn()
        raise AssertionError(f"no end within {MOST_STEPS} steps")

    def _start_gateway(self) -> None:
        """After a kill: what is on record is all that is known."""
        self.plan = StreamPlan(self.rules, Pool(self.tasks, 3, Parking(after=2, updates=1)))
        self.live: dict[int, Live] = {}
        self.formed: set[int] = set()
        for ordinal in sorted(self.turns):
            if ordinal in self.outcomes:
                turn, outcome, rewards = self.outcomes[ordinal]
                self.plan.restore(turn, outcome, rewards)
            elif ordinal in self.samples or ordinal in self.outbox:
                samples = self.samples.get(ordinal, [])
                oldest = min([self.version, *(s.oldest_version for s in samples)])
                self.plan.resume(self.turns[ordinal], oldest)
                if ordinal not in self.outbox:
                    self.live[ordinal] = self._group(self.turns[ordinal], samples)
            else:
                del self.turns[ordinal]

    def _group(self, turn: Turn, samples: list[Sample]) -> Live:
        state = GroupState(
            Rules(
                task_hash=TASK,
                size=self.size,
                attempts_per_slot=3,
                max_version_spread=self.rules.spread,
                keep_zero_variance=True,
            )
        )
        for sample in samples:
            state.resume(sample.slot, sample.attempt)
            state.arrived(sample)
        return Live(turn, state, [])

    def _start(self, faulty: bool) -> None:
        for ordinal, decision in self.plan.lost(self._view()).items():
            if ordinal in self.live:
                self.live[ordinal].state.cancel(CancelReason(decision))
                self._end_if_over(ordinal)
        if self.plan.may_start(self._view()):
            turn = self.plan.start(self._view())
            assert turn is not None
            assert turn.ordinal not in self.turns, "a turn was taken twice"
            self.turns[turn.ordinal] = turn
            self.live[turn.ordinal] = self._group(turn, [])

    def _attempt(self, faulty: bool) -> None:
        """Something of a group that runs begins or ends."""
        if not self.live:
            return
        ordinal = self.chance.choice(list(self.live))
        live = self.live[ordinal]
        for owed in live.state.take_owed():
            live.running.append(owed)
            live.begun_at[owed] = self.version
        if live.running:
            slot, attempt = live.running.pop(self.chance.randrange(len(live.running)))
            if faulty and self.chance.random() < 0.3:
                live.state.failed(slot, attempt)
            else:
                self._arrive(ordinal, live, slot, attempt)
        self._end_if_over(ordinal)

    def _arrive(self, ordinal: int, live: Live, slot: int, attempt: int) -> None:
        sample = Sample(
            slot=slot,
            attempt=attempt,
            reward=float(self.chance.random() < 0.5),
            task_hash=TASK,
            initial_state_hash="s",
            oldest_version=min(live.begun_at[slot, attempt], self.version),
            newest_version=self.version,
        )
        if live.state.arrived(sample):
            self.samples.setdefault(ordinal, []).append(sample)

    def _end_if_over(self, ordinal: int) -> None:
        outcome = self.live[ordinal].state.outcome
        if isinstance(outcome, Formed):
            rewards = tuple(sample.reward for sample in outcome.samples)
            oldest = min(sample.oldest_version for sample in outcome.samples)
            self.outbox[ordinal] = (rewards, oldest)
            del self.live[ordinal]
        elif isinstance(outcome, Cancelled):
            del self.live[ordinal]
            self._record(ordinal, outcome.reason.value, ())
            self.plan.ended(ordinal, outcome.reason.value)

    def _decide(self, faulty: bool) -> None:
        for ordinal, (rewards, oldest) in sorted(self.outbox.items()):
            if ordinal not in self.formed:
                self.plan.formed(ordinal, rewards, oldest)
                self.formed.add(ordinal)
            if self.plan.is_turn(ordinal):
                decision = self.plan.decide(ordinal, self._view())
                if decision in (Decision.PUBLISH, Decision.FILL):
                    self.stream.append((ordinal, oldest))
                    decision = Decision.PUBLISH
                self._record(ordinal, decision.value, rewards)
                del self.outbox[ordinal]
                return

    def _record(self, ordinal: int, outcome: str, rewards: tuple[float, ...]) -> None:
        assert ordinal not in self.outcomes, "a group ended twice"
        self.outcomes[ordinal] = (self.turns[ordinal], outcome, rewards)

    def _cancel_and_resume(self) -> None:
        """Groups that the cancel ended are owed again with the samples that they have."""
        self._start_gateway()

    # the learner

    def _learn(self) -> None:
        """Train as soon as there are groups enough; refuse what is too old."""
        batch = []
        for ordinal, oldest in self.stream:
            if ordinal in self.dropped or ordinal in self.trained:
                continue
            if self.version - oldest > self.rules.staleness:
                self.dropped.add(ordinal)
                continue
            batch.append(ordinal)
            if len(batch) == self.rules.groups_per_update:
                self.trained += batch
                self.version += 1
                if self.chance.random() < 0.5:
                    self.checkpoint = self.version
                return

    def _rollback(self) -> None:
        """Back to the checkpoint; what was sampled under versions after it is abandoned."""
        if self.version > self.checkpoint:
            self.version = self.checkpoint
            self.trained = self.trained[: self.version * self.rules.groups_per_update]
            ahead = [o for o, oldest in self.stream if oldest > self.version]
            self.dropped |= set(ahead) - set(self.trained)

    def _view(self) -> View:
        return View(self.version, 0, len(self.dropped))

    def _is_done(self) -> bool:
        view = self._view()
        return self.plan.is_delivered(view) and self.plan.is_consumed(view)

    def _check(self) -> None:
        owed = self.rules.updates * self.rules.groups_per_update
        assert len(self.trained) == owed, (len(self.trained), owed)
        assert len(set(self.trained)) == owed, "a group was trained twice"
        assert self.version == self.rules.updates
        assert set(self.turns) == set(self.outcomes) | set(self.live) | set(self.outbox)
        published = [o for o, (_, end, _) in self.outcomes.items() if end == Decision.PUBLISH]
        order = [ordinal for ordinal, _ in self.stream]
        assert order == sorted(order), "a group was overtaken"
        assert sorted(published) == sorted(ordinal for ordinal, _ in self.stream)
