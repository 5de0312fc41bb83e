"""A recorded job, lived through again without any service: the same attempts, the same groups?

Each recorded attempt goes through the state machine of its group in the order in which it ended; a
group that forms is put together again, and its bytes must be those that were published or kept.
What a stream decided on a formed group is decided again, from the view that is on record. Not
replayed, because the record does not hold them: when a group was started, and that somebody gave up
a group from outside (a cancel, a version that came, everything owed being there).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from envfarm.canonical import bytes_hash
from envfarm.errors import ConfigError
from envfarm.record_frames import FILE, read_frames
from envfarm.streams import PAYLOAD_VERSION
from envfarm.v1 import group_pb2, trajectory_pb2
from google.protobuf.message import DecodeError

from rollout_gateway.group_run import FINAL_ERRORS, WIRE_REASON, sample_of
from rollout_gateway.groups import Cancelled, Formed, GroupState, Rules
from rollout_gateway.job_context import EndRules, read_context, read_rules
from rollout_gateway.job_spec import JobSpec
from rollout_gateway.job_status import reason_name
from rollout_gateway.jobs import read_spec
from rollout_gateway.pool import Parking, Turn
from rollout_gateway.record import FAILURE, OUTCOME, REOPENED, ROLLOUT
from rollout_gateway.rollout import Attempted
from rollout_gateway.stream_plan import Decision, View
from rollout_gateway.stream_run import outcome_label, plan_of

Reason = group_pb2.CancelReason
FROM_OUTSIDE = {
    Reason.CANCEL_REASON_JOB_CANCELLED,
    Reason.CANCEL_REASON_STALE,
    Reason.CANCEL_REASON_SURPLUS,
}


@dataclass(frozen=True, slots=True)
class Deviation:
    group_id: str
    what: str


@dataclass(slots=True)
class Replayed:
    """What came of one job."""

    groups: int = 0
    attempts: int = 0
    made_again: int = 0
    """Groups whose bytes came out with the recorded hash."""
    decided_again: int = 0
    """Decisions of a stream that came out the same."""
    deviations: list[Deviation] = field(default_factory=list)


def replay(folder: Path) -> Replayed:
    """Live through the job in `folder`; ConfigError when its record cannot be read."""
    spec, _ = read_spec(folder / "job.json")
    _, tasks = read_context(folder)
    hashes = {task_id: task.ref.task_hash for task_id, task in tasks.items()}
    return _Replay(spec, read_rules(folder), hashes).run(folder / FILE)


class _Replay:
    def __init__(self, spec: JobSpec, rules: EndRules, hashes: dict[str, str]):
        self._spec, self._rules, self._hashes = spec, rules, hashes
        self._groups: dict[str, list[Attempted]] = {}
        self._outcomes: dict[str, group_pb2.GroupOutcome] = {}
        self._found = Replayed()

    def run(self, path: Path) -> Replayed:
        failures: dict[str, group_pb2.FailedAttempt] = {}
        for kind, message, offset in read_frames(path):
            try:
                if kind == FAILURE:
                    failure = group_pb2.FailedAttempt.FromString(message)
                    failures[failure.rollout_id] = failure
                elif kind == ROLLOUT:
                    rollout = group_pb2.Rollout.FromString(message)
                    self._ended(Attempted(rollout, failures.pop(rollout.rollout_id, None)))
                elif kind in (OUTCOME, REOPENED):
                    outcome = group_pb2.GroupOutcome.FromString(message)
                    self._outcomes.pop(outcome.group_id, None)
                    if kind == OUTCOME:
                        self._outcomes[outcome.group_id] = outcome
                        self._check(outcome)
            except DecodeError as error:
                raise ConfigError(f"{path}: damaged at byte {offset}") from error
        self._found.groups = len(self._outcomes)
        if self._spec.is_stream:
            self._decide_again()
        return self._found

    def _ended(self, attempted: Attempted) -> None:
        self._found.attempts += 1
        name = attempted.rollout.rollout_id.rpartition(".s")[0]
        self._groups.setdefault(name, []).append(attempted)

    def _check(self, outcome: group_pb2.GroupOutcome) -> None:
        """Compare an outcome with what the attempts before it lead to."""
        attempts = self._groups.get(outcome.group_id, [])
        state, clean, failed = self._lived(outcome, attempts)
        for what in self._differs(outcome, state, clean, failed):
            self._found.deviations.append(Deviation(outcome.group_id, what))

    def _lived(
        self, outcome: group_pb2.GroupOutcome, attempts: list[Attempted]
    ) -> tuple[GroupState, dict[int, group_pb2.Rollout], list[group_pb2.FailedAttempt]]:
        spec = self._spec
        state = GroupState(
            Rules(
                task_hash=self._hashes.get(outcome.task.task_id, ""),
                size=spec.group_size,
                attempts_per_slot=self._rules.attempts_per_slot,
                max_version_spread=self._rules.max_version_spread,
                keep_zero_variance=spec.keep_zero_variance or spec.is_stream or not spec.publish,
                only_version=spec.policy_number,
            )
        )
        clean: dict[int, group_pb2.Rollout] = {}
        failed: list[group_pb2.FailedAttempt] = []
        for attempted in attempts:
            rollout, failure = attempted.rollout, attempted.failure
            if rollout.trajectory.status == trajectory_pb2.ROLLOUT_STATUS_CANCELLED:
                state.skip_attempt(rollout.slot, rollout.attempt)
                continue
            state.resume(rollout.slot, rollout.attempt)
            if failure is None:
                if state.arrived(sample_of(rollout)):
                    clean[rollout.slot] = rollout
            elif state.failed(
                rollout.slot, rollout.attempt, final=failure.error_class in FINAL_ERRORS
            ):
                failed.append(failure)
        return state, clean, failed

    def _differs(
        self,
        outcome: group_pb2.GroupOutcome,
        state: GroupState,
        clean: dict[int, group_pb2.Rollout],
        failed: list[group_pb2.FailedAttempt],
    ) -> Iterator[str]:
        published = outcome.WhichOneof("end") == "published"
        told = "formed" if published or outcome.sha256 else reason_name(outcome)
        if published and not outcome.sha256:
            return  # a kill came between the stream and the record: only its entry is known
        if isinstance(state.outcome, Formed):
            here = "formed"
            if told == "stale" and self._spec.publish:
                return  # the versions that sampled it were abandoned
        elif isinstance(state.outcome, Cancelled):
            here = reason_name(group_pb2.GroupOutcome(cancelled=WIRE_REASON[state.outcome.reason]))
        else:
            here = told if outcome.cancelled in FROM_OUTSIDE else "still running"
        if here != told:
            yield f"ended as {told} on record, {here} here"
            return
        if list(outcome.rewards) != state.rewards:
            yield f"rewards {list(outcome.rewards)} on record, {state.rewards} here"
        if outcome.refilled_samples != state.refilled:
            yield f"{outcome.refilled_samples} run again on record, {state.refilled} here"
        if outcome.sha256:
            yield from self._made_again(outcome, clean, failed)

    def _made_again(
        self,
        outcome: group_pb2.GroupOutcome,
        clean: dict[int, group_pb2.Rollout],
        failed: list[group_pb2.FailedAttempt],
    ) -> Iterator[str]:
        rollouts = [clean[slot] for slot in sorted(clean)]
        group = group_pb2.Group(
            schema_version=PAYLOAD_VERSION,
            group_id=outcome.group_id,
            run_id=self._spec.run_id,
            task=outcome.task,
            initial_state_hash=rollouts[0].verdict.initial_state_hash,
            rollouts=rollouts,
            size=len(rollouts),
            failed_attempts=sorted(failed, key=lambda one: (one.slot, one.attempt)),
            policy=outcome.policy if outcome.HasField("policy") else None,
            formed_at=outcome.formed_at,
        )
        here = bytes_hash(group.SerializeToString(deterministic=True))
        if here == outcome.sha256:
            self._found.made_again += 1
        else:
            yield f"bytes {outcome.sha256[:12]}… on record, {here[:12]}… here"

    def _decide_again(self) -> None:
        rules = self._rules
        parking = Parking(
            after=rules.park_after, updates=rules.park_updates, per_update=rules.task_replacements
        )
        plan = plan_of(self._spec, rules.max_version_spread, parking, rules.oversampling)
        ended = []
        for name, outcome in self._outcomes.items():
            _, index, number = name.rsplit(".", 2)
            place = plan.pool.place(int(index), int(number))
            ended.append((Turn(place, int(index), int(number)), outcome))
        for turn, outcome in sorted(ended, key=lambda pair: pair[0].ordinal):
            rewards, label = tuple(outcome.rewards), outcome_label(outcome)
            if not outcome.HasField("view"):
                plan.restore(turn, label, rewards)
                continue
            view = outcome.view
            seen = View(view.version, view.elsewhere, view.dropped)
            plan.resume(turn, outcome.policy_number)
            plan.formed(turn.ordinal, rewards, outcome.policy_number)
            decision = plan.decide(turn.ordinal, seen)
            here = Decision.PUBLISH if decision is Decision.FILL else decision
            if here == label:
                self._found.decided_again += 1
            else:
                what = f"decided as {label} on record, {here} here"
                self._found.deviations.append(Deviation(outcome.group_id, what))
