"""A graded attempt as the Verdict message and as JSON."""

from typing import Any

from envfarm.canonical import content_hash
from envfarm.v1 import evidence_pb2, task_pb2, verdict_pb2
from google.protobuf import json_format

from grader.evidence import Change
from grader.grading import Attempt, Graded
from grader.source_hash import grader_hash

_OPS = {
    "insert": evidence_pb2.ROW_OP_INSERT,
    "update": evidence_pb2.ROW_OP_UPDATE,
    "delete": evidence_pb2.ROW_OP_DELETE,
}
_STATUSES = {
    "graded": verdict_pb2.VERDICT_STATUS_GRADED,
    "ungradable": verdict_pb2.VERDICT_STATUS_UNGRADABLE,
}
INPUTS = {
    "episode": verdict_pb2.GRADE_INPUT_EPISODE,
    "dsn": verdict_pb2.GRADE_INPUT_DSN,
    "state": verdict_pb2.GRADE_INPUT_STATE,
    "stored": verdict_pb2.GRADE_INPUT_STORED,
}
MEASURED = ("seconds", "timings", "input", "episode_id", "judge_tokens")
"""Fields that tell how a verdict came about; all others follow from evidence, checks and grader."""


def to_proto(
    request_id: str, attempt: Attempt, graded: Graded, *, input: str, evidence_hash: str
) -> verdict_pb2.Verdict:
    """The Verdict message; `reward` stays unset unless graded."""
    decision, evidence = graded.decision, graded.evidence
    identity = [request_id, evidence_hash, graded.checks_hash, grader_hash()]
    verdict = verdict_pb2.Verdict(
        verdict_id="v-" + content_hash(identity)[:32],
        request_id=request_id,
        task=task_pb2.TaskRef(task_id=attempt.task_id, task_hash=attempt.task_hash),
        status=_STATUSES[decision.status],  # pyright: ignore[reportArgumentType]
        checks=[
            verdict_pb2.CheckResult(
                name=result.name,
                kind=result.kind,
                passed=result.passed,
                expected=result.expected,
                observed=result.observed,
                judge=result.judge,
            )
            for result in graded.results
        ],
        checks_hash=graded.checks_hash,
        golden_hash=graded.golden_hash,
        grader_hash=grader_hash(),
        evidence_hash=evidence_hash,
        ungradable_reason=decision.reason,
        input=INPUTS[input],  # pyright: ignore[reportArgumentType]
        seconds=graded.seconds,
        judge_tokens=sum(result.judge_tokens for result in graded.results),
        timings=verdict_pb2.Timings(
            evidence_seconds=graded.evidence_seconds,
            checks_seconds=max(0.0, graded.seconds - graded.evidence_seconds),
        ),
    )
    if graded.upstream:
        said = graded.upstream
        verdict.as_upstream.CopyFrom(
            verdict_pb2.UpstreamVerdict(
                harness=said.harness,
                result=said.result,
                reward=said.reward,
                is_system_error=said.is_system_error,
                detail=said.detail,
                line=said.line,
            )
        )
    if evidence:
        verdict.diff.extend(map(_row_change, evidence.changes))
        verdict.initial_state_hash = evidence.initial_state_hash
        verdict.final_state_hash = evidence.final_state_hash
        verdict.world.world_id = evidence.world_id
        verdict.world.world_hash = evidence.world_hash
        verdict.episode_id = evidence.episode_id
    if decision.reward is not None:
        verdict.reward = decision.reward
    return verdict


def to_json(verdict: verdict_pb2.Verdict) -> dict[str, Any]:
    """Every field by its proto name; only `reward` and a `world` that is not known may be absent."""
    return json_format.MessageToDict(
        verdict, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def from_json(value: dict[str, Any]) -> verdict_pb2.Verdict:
    """The message that `to_json` wrote."""
    return json_format.ParseDict(value, verdict_pb2.Verdict())


def decided(value: dict[str, Any]) -> dict[str, Any]:
    """What has to be equal when an attempt is graded again, however its state is read."""
    return {name: item for name, item in value.items() if name not in MEASURED}


def _row_change(change: Change) -> evidence_pb2.RowChange:
    return evidence_pb2.RowChange(
        table=change.table,
        key_json=change.key,
        op=_OPS[change.op],  # pyright: ignore[reportArgumentType]
        before_json=change.before,
        after_json=change.after,
    )
