"""One group, from its first attempt to its outcome on record.

`groups.py` says what is owed and when it is over; here attempts run, formed groups are published and
outcomes written. A group that a process before this one began goes on from what is on record."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from envfarm.canonical import bytes_hash
from envfarm.errors import StreamError
from envfarm.ids import rollout_id
from envfarm.streams import PAYLOAD_VERSION
from envfarm.v1 import group_pb2, task_pb2, trajectory_pb2
from envfarm_common import logging
from envfarm_common.metrics import Instruments

from rollout_gateway.attempt_rows import attempt_row
from rollout_gateway.conversation import status_name
from rollout_gateway.groups import Cancelled, CancelReason, Formed, GroupState, Rules, Sample
from rollout_gateway.job_context import Rendering
from rollout_gateway.jobs import Job
from rollout_gateway.ledger import RunLedger
from rollout_gateway.publish import Publisher
from rollout_gateway.rollout import STATUS_OF_BOUNDARY, Attempted, Order, Parts
from rollout_gateway.seats import Seats
from rollout_gateway.thinkingbox.attempt import attempt_of
from rollout_gateway.versions import Versions

log = logging.get(__name__)

T = TypeVar("T")

FINAL_ERRORS = {
    "UnknownTask",
    "BrokenWorld",
    "NoChecks",
    "PromptTooLong",
    "EndpointRefused",
    "ConfigError",
    "InvalidArgument",
    "Unauthenticated",
    "WrongScope",
}
"""A further attempt would meet them again."""
REFILL_PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 5.0

Reason = group_pb2.CancelReason
WIRE_REASON = {
    CancelReason.REFILL_CAP: Reason.CANCEL_REASON_REFILL_CAP,
    CancelReason.ZERO_VARIANCE: Reason.CANCEL_REASON_ZERO_VARIANCE,
    CancelReason.STALE: Reason.CANCEL_REASON_STALE,
    CancelReason.JOB_CANCELLED: Reason.CANCEL_REASON_JOB_CANCELLED,
    CancelReason.INCONSISTENT: Reason.CANCEL_REASON_INCONSISTENT,
    CancelReason.NOT_RUNNABLE: Reason.CANCEL_REASON_NOT_RUNNABLE,
    CancelReason.SURPLUS: Reason.CANCEL_REASON_SURPLUS,
}


def tell_from_zero(instruments: Instruments) -> None:
    """A series that begins at its first event hides that event from every rate."""
    for status in STATUS_OF_BOUNDARY.values():
        instruments.count("envfarm_samples_refilled_total", 0, status=status_name(status))
    for outcome in ("published", "recorded", *CancelReason):
        instruments.count("envfarm_groups_total", 0, outcome=str(outcome))


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupParts:
    """What every group uses."""

    rollouts: Parts
    versions: Versions
    publisher: Publisher
    ledger: RunLedger
    rendering: Rendering
    seats: Seats
    """One for each attempt that may run at once."""
    attempts_per_slot: int
    max_version_spread: int
    clock: Callable[[], float]
    """Unix seconds."""


BOOT = secrets.token_hex(4)
"""Makes request ids that no process before this one has used."""


Gate = Callable[[group_pb2.Group], Awaitable[CancelReason | None]]
"""Says when a formed group is published, or why it is not."""


class GroupRun:
    def __init__(
        self,
        parts: GroupParts,
        job: Job,
        group_id: str,
        task: task_pb2.Task,
        place: int,
        gate: Gate | None = None,
    ):
        """`place` is the group's in its job: the lower one is seated first."""
        self._parts, self._job, self._group_id, self._task = parts, job, group_id, task
        self._place, self._gate = place, gate
        self.added = asyncio.Event()
        """Set when it stands on the stream, or has ended without."""
        self.view: group_pb2.RunView | None = None
        """Of a stream: where the run stood when this group was decided on."""
        self._behind: asyncio.Event | None = None
        self._seated = asyncio.Event()
        self._given_up: asyncio.Future[CancelReason] = asyncio.Future()
        spec = job.spec
        self._state = GroupState(
            Rules(
                task_hash=task.ref.task_hash,
                size=spec.group_size,
                attempts_per_slot=parts.attempts_per_slot,
                max_version_spread=parts.max_version_spread,
                keep_zero_variance=spec.keep_zero_variance or spec.is_stream or not spec.publish,
                only_version=spec.policy_number,
            )
        )
        self._rollouts: dict[int, group_pb2.Rollout] = {}
        self._failed: list[group_pb2.FailedAttempt] = []

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Returns when the outcome is on record; `started` is set once it asks for seats."""
        self._seated = started or self._seated
        try:
            await self._run()
        finally:
            self._seated.set()
            self.added.set()

    def publish_behind(self, other: asyncio.Event) -> None:
        """Not before `other` is set."""
        self._behind = other

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._behind is not None:
            await self._behind.wait()
        yield
        self.added.set()

    def give_up(self, reason: CancelReason) -> None:
        """End it early; nothing happens to a group that is formed."""
        if not self._given_up.done():
            self._given_up.set_result(reason)

    async def _run(self) -> None:
        formed = self._job.read_outbox(self._group_id)
        if self._job.spec.publish:
            entry = await self._patiently(self._published)
            if entry is not None:
                await self._end(_outcome(formed, published=entry))
                self._job.clear_outbox(self._group_id)
                return
        if formed is None:
            formed = await self._form()
        if formed is not None:
            await self._deliver(formed)

    async def _form(self) -> group_pb2.Group | None:
        """The group, or None after its cancellation is on record."""
        self._restore()
        await self._run_attempts()
        outcome = self._state.outcome
        if isinstance(outcome, Formed):
            group = self._message(outcome)
            if group is not None:
                return group
            outcome = Cancelled(CancelReason.STALE)
        assert isinstance(outcome, Cancelled)
        await self._end(
            group_pb2.GroupOutcome(
                cancelled=WIRE_REASON[outcome.reason],
                rewards=self._state.rewards,
                refilled_samples=self._state.refilled,
                policy_number=self._state.oldest_version,
            ),
            outcome.reason,
        )
        return None

    async def _run_attempts(self) -> None:
        state, running = self._state, set[asyncio.Task[None]]()
        stop = asyncio.create_task(self._job.stopping.wait())
        try:
            while state.outcome is None:
                for slot, attempt in state.take_owed():
                    running.add(asyncio.create_task(self._attempt(slot, attempt)))
                done, _ = await asyncio.wait(
                    [stop, self._given_up, *running], return_when=asyncio.FIRST_COMPLETED
                )
                for task in running & done:
                    running.remove(task)
                    task.result()
                if stop in done:
                    state.cancel(CancelReason.JOB_CANCELLED)
                elif self._given_up in done:
                    state.cancel(self._given_up.result())
        finally:
            for task in (stop, *running):
                task.cancel()
            await asyncio.gather(stop, *running, return_exceptions=True)

    async def _attempt(self, slot: int, attempt: int) -> None:
        """Run one attempt and put it on record, whichever way it ends."""
        job, parts = self._job, self._parts.rollouts
        if failures := self._state.failures(slot):
            await asyncio.sleep(min(REFILL_PAUSE_SECONDS * 2 ** (failures - 1), MAX_PAUSE_SECONDS))
        name = rollout_id(self._group_id, slot, attempt)
        order = Order(
            rollout_id=name,
            request_id=f"{name}.{BOOT}",
            slot=slot,
            attempt=attempt,
            task=self._task,
            repetition=job.spec.repetition(self._group_id, slot),
            slot_mode=job.spec.slot_mode,
            seed=job.spec.seed,
            policy=None if job.spec.interface else self._parts.versions.in_service,
            interface=job.spec.interface,
        )
        async with self._seat(slot):
            if not job.spec.interface:
                with job.waits_for("" if parts.policy.is_serving else "engine"):
                    await parts.policy.wait_until_serving()
            with job.waits_for("grader" if parts.grader.is_doubtful else ""):
                await parts.grader.wait_until_healthy()
            if not job.spec.interface:
                order = replace(order, policy=self._parts.versions.in_service)
            running = attempt_of(parts, order, job.waits_for)
            job.live[name] = running
            try:
                attempted = await running.run()
            except asyncio.CancelledError:
                # Nobody waits for a disk while stopping: a restart runs the attempt again.
                with contextlib.suppress(OSError):
                    self._record(running.cancelled(), order)
                raise
            finally:
                del job.live[name]
        await job.on_disk(lambda: self._record(attempted, order))
        # In the order of the record, which a restart and a replay go by.
        self._note(attempted)

    @contextlib.asynccontextmanager
    async def _seat(self, slot: int) -> AsyncIterator[None]:
        job, seats = self._job, self._parts.seats
        self._seated.set()
        waiting = contextlib.ExitStack()
        with waiting:
            waiting.enter_context(job.waits_for("seat"))
            async with seats.seat(job.spec.job_id, job.spec.share, (self._place, slot)):
                waiting.close()
                yield

    def _record(self, attempted: Attempted, order: Order) -> None:
        self._job.record.add_attempt(attempted, attempt_row(attempted, order))
        status = status_name(attempted.rollout.trajectory.status)
        self._parts.rollouts.instruments.count(
            "envfarm_rollouts_total",
            domain=self._task.ref.task_id.partition("/")[0],
            status=status,
        )

    def _note(self, attempted: Attempted) -> None:
        """Tell the group state how an attempt ended."""
        rollout, failure = attempted.rollout, attempted.failure
        if failure is None:
            if self._state.arrived(sample_of(rollout)):
                self._rollouts[rollout.slot] = rollout
            return
        final = failure.error_class in FINAL_ERRORS
        if self._state.failed(failure.slot, failure.attempt, final=final):
            self._failed.append(failure)
            self._job.live_refills[self._group_id] = self._state.refilled
            self._parts.rollouts.instruments.count(
                "envfarm_samples_refilled_total", status=status_name(failure.status)
            )

    def _restore(self) -> None:
        for attempted in self._job.record.attempts(self._group_id):
            rollout = attempted.rollout
            if rollout.trajectory.status == trajectory_pb2.ROLLOUT_STATUS_CANCELLED:
                self._state.skip_attempt(rollout.slot, rollout.attempt)
                continue
            self._state.resume(rollout.slot, rollout.attempt)
            self._note(attempted)

    def _message(self, formed: Formed) -> group_pb2.Group | None:
        """The Group; None when the versions that sampled it were abandoned meanwhile."""
        oldest = min(sample.oldest_version for sample in formed.samples)
        policy = self._parts.versions.version(self._job.spec.run_id, oldest)
        if policy is None and self._job.spec.publish:
            return None
        return group_pb2.Group(
            schema_version=PAYLOAD_VERSION,
            group_id=self._group_id,
            run_id=self._job.spec.run_id,
            task=self._task.ref,
            initial_state_hash=formed.samples[0].initial_state_hash,
            rollouts=[self._rollouts[sample.slot] for sample in formed.samples],
            size=len(formed.samples),
            failed_attempts=sorted(self._failed, key=lambda failed: (failed.slot, failed.attempt)),
            policy=policy,
            formed_at=self._parts.clock(),
        )

    async def _deliver(self, group: group_pb2.Group) -> None:
        entry, reason = "", None
        if self._job.spec.publish:
            await self._job.on_disk(lambda: self._job.put_in_outbox(group))
            reason = await self._gate(group) if self._gate is not None else None
        if self._job.spec.publish and reason is None:
            with self._parts.rollouts.stages.at("publish"):
                entry = await self._patiently(
                    lambda: self._parts.publisher.publish(group, self._turn)
                )
        if reason is None:
            outcome = _outcome(group, published=entry)
        else:
            outcome = _outcome(group, cancelled=WIRE_REASON[reason])
        await self._end(outcome, reason)
        self._job.clear_outbox(self._group_id)

    async def _published(self) -> str | None:
        return await self._parts.publisher.published(self._job.spec.run_id, self._group_id)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask Redis until it answers."""
        pause = REFILL_PAUSE_SECONDS
        while True:
            try:
                return await ask()
            except StreamError as error:
                log.warning("stream not reached", group_id=self._group_id, error=error.message)
            with self._job.waits_for("stream"):
                await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _end(
        self, outcome: group_pb2.GroupOutcome, reason: CancelReason | None = None
    ) -> None:
        outcome.group_id = self._group_id
        outcome.ended_at = self._parts.clock()
        outcome.task.CopyFrom(self._task.ref)
        if self.view is not None:
            outcome.view.CopyFrom(self.view)
        await self._job.on_disk(lambda: self._job.record.add_outcome(outcome))
        self._job.live_refills.pop(self._group_id, None)
        label = reason or ("published" if self._job.spec.publish else "recorded")
        self._parts.rollouts.instruments.count("envfarm_groups_total", outcome=str(label))


def versions_of(rollout: group_pb2.Rollout) -> list[int]:
    """Numbers of the policy versions that sampled it; a chat endpoint is version 0 for ever."""
    return [span.version_number for span in rollout.trajectory.version_spans] or [0]


def _outcome(group: group_pb2.Group | None, **end: Any) -> group_pb2.GroupOutcome:
    """`group` is None when only its entry is known."""
    if group is None:
        return group_pb2.GroupOutcome(**end)
    return group_pb2.GroupOutcome(
        rewards=[rollout.verdict.reward for rollout in group.rollouts],
        refilled_samples=len(group.failed_attempts),
        policy_number=min(min(versions_of(rollout)) for rollout in group.rollouts),
        sha256=bytes_hash(group.SerializeToString(deterministic=True)),
        formed_at=group.formed_at,
        policy=group.policy if group.HasField("policy") else None,
        **end,
    )


def sample_of(rollout: group_pb2.Rollout) -> Sample:
    versions = versions_of(rollout)
    return Sample(
        slot=rollout.slot,
        attempt=rollout.attempt,
        reward=rollout.verdict.reward,
        task_hash=rollout.verdict.task.task_hash,
        initial_state_hash=rollout.verdict.initial_state_hash,
        oldest_version=min(versions),
        newest_version=max(versions),
    )
