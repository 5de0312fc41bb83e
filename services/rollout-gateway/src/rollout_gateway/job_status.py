"""Where a job stands, as the wire and people see it."""

from collections import Counter
from typing import Any

from envfarm.v1 import gateway_service_pb2 as wire
from envfarm.v1 import group_pb2
from google.protobuf import json_format
from google.protobuf.message import Message

from rollout_gateway.job_request import WIRE_KINDS
from rollout_gateway.jobs import ACTIVE, Job, JobState

STATES = {
    JobState.RUNNING: wire.JOB_STATE_RUNNING,
    JobState.CANCELLING: wire.JOB_STATE_RUNNING,
    JobState.DONE: wire.JOB_STATE_DONE,
    JobState.CANCELLED: wire.JOB_STATE_CANCELLED,
    JobState.FAILED: wire.JOB_STATE_FAILED,
}


def job_status(job: Job) -> wire.JobStatus:
    ended, tally, spec = job.record.outcomes.values(), job.record.tally, job.spec
    reasons = Counter(reason_name(o) for o in ended if o.WhichOneof("end") == "cancelled")
    clean = len(ended) - reasons.total()
    running = job.state in ACTIVE
    return wire.JobStatus(
        job_id=spec.job_id,
        run_id=spec.run_id,
        kind=WIRE_KINDS[spec.kind],
        state=STATES[job.state],
        groups_total=spec.groups_total,
        groups_published=clean if spec.publish else 0,
        groups_recorded=0 if spec.publish else clean,
        groups_cancelled=reasons.total(),
        groups_running=job.running_groups,
        groups_dropped=job.dropped,
        rollouts_running=len(job.live),
        refilled_samples=sum(outcome.refilled_samples for outcome in ended)
        + sum(job.live_refills.values()),
        replaced_zero_variance=reasons["zero_variance"],
        filled_zero_variance=job.filled,
        cancelled=reasons,
        waiting_for=job.waiting_for if running else "",
        waiting=job.waiting if running else {},
        parked=job.parked,
        message=job.message,
        attempts=tally.attempts,
        attempts_total=spec.groups_total * spec.group_size,
        sampled_tokens=tally.sampled_tokens,
        reward_mean=tally.reward / tally.graded if tally.graded else 0.0,
        submitted_at=job.submitted_at,
        ended_at=job.ended_at,
        is_stream=spec.is_stream,
        bands=job.bands,
    )


def slots_json(job: Job) -> list[dict[str, str | int | float]]:
    """Each attempt that runs, the one that has been at the same thing for longest first."""
    return sorted(
        (attempt.now() for attempt in job.live.values()),
        key=lambda now: (-float(now["seconds"]), now["rollout_id"]),
    )


def outcome_json(outcome: group_pb2.GroupOutcome) -> dict[str, Any]:
    """One group's end, readable."""
    cancelled = outcome.WhichOneof("end") == "cancelled"
    return {
        "group_id": outcome.group_id,
        "task_id": outcome.task.task_id,
        "end": reason_name(outcome) if cancelled else "published" if outcome.published else "kept",
        "entry": outcome.published,
        "rewards": list(outcome.rewards),
        "refilled_samples": outcome.refilled_samples,
        "policy_number": outcome.policy_number,
        "ended_at": outcome.ended_at,
    }


def reason_name(outcome: group_pb2.GroupOutcome) -> str:
    """`refill_cap` for CANCEL_REASON_REFILL_CAP."""
    return group_pb2.CancelReason.Name(outcome.cancelled).removeprefix("CANCEL_REASON_").lower()


def as_json(message: Message) -> dict[str, Any]:
    """Every field, also those at their default; 64-bit numbers as numbers."""
    value = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    for field in ("sampled_tokens",):
        if field in value:
            value[field] = int(value[field])
    return value
