"""SubmitJobRequest ↔ JobSpec, and the same request as JSON."""

from typing import Any

from envfarm.errors import InvalidArgument
from envfarm.v1 import episode_pb2
from envfarm.v1 import gateway_service_pb2 as wire
from google.protobuf import json_format

from rollout_gateway.job_spec import JobKind, JobSpec

DEFAULT_GROUP_SIZE = 8
KINDS = {
    wire.JOB_KIND_TRAIN: JobKind.TRAIN,
    wire.JOB_KIND_PROBE: JobKind.PROBE,
    wire.JOB_KIND_EVAL: JobKind.EVAL,
}
WIRE_KINDS = {kind: number for number, kind in KINDS.items()}
SLOT_MODES = {
    episode_pb2.SLOT_MODE_UNSPECIFIED: "",
    episode_pb2.SLOT_MODE_FRESH: "fresh",
    episode_pb2.SLOT_MODE_REUSE: "reuse",
}


def job_spec(request: wire.SubmitJobRequest) -> JobSpec:
    """With defaults filled in; InvalidArgument for values that no spec can hold."""
    kind = KINDS.get(request.kind)
    if kind is None:
        kind = JobKind.TRAIN if request.publish else JobKind.PROBE
    mode = SLOT_MODES.get(request.slot_mode)
    if mode is None:
        raise InvalidArgument(f"slot_mode {request.slot_mode} is unknown")
    if kind is JobKind.EVAL:
        if mode == "reuse":
            raise InvalidArgument("an evaluation always gets fresh databases")
        mode = "fresh"
    pinned, per_update = request.HasField("policy"), request.groups_per_update
    given = request.HasField("max_replacements")
    return JobSpec(
        job_id=request.job_id,
        run_id=request.run_id,
        task_ids=tuple(request.task_ids),
        groups_per_task=request.groups_per_task,
        group_size=request.group_size or DEFAULT_GROUP_SIZE,
        publish=request.publish or kind is JobKind.TRAIN,
        keep_zero_variance=request.keep_zero_variance or kind is not JobKind.TRAIN,
        kind=kind,
        seed=request.seed,
        slot_mode=mode,
        staleness=request.staleness if request.HasField("staleness") else 1,
        groups_per_update=per_update,
        updates=request.updates,
        updates_per_version=request.updates_per_version or 1,
        max_replacements=request.max_replacements if given else 2 * per_update,
        policy_run=(request.policy.run_id or request.run_id) if pinned else "",
        policy_number=request.policy.number if pinned else None,
        policy_hash=request.policy.weights_hash if pinned else "",
        share=request.share or 1,
        reband_after=request.reband_after,
        interface="" if request.interface == "tokens" else request.interface,
    )


def from_json(body: dict[str, Any]) -> wire.SubmitJobRequest:
    """Field names as in the proto; kind and slot_mode as short words ("train", "fresh")."""
    value = dict(body)
    for name, prefix in (("kind", "JOB_KIND_"), ("slot_mode", "SLOT_MODE_")):
        word = value.get(name)
        if isinstance(word, str) and not word.startswith(prefix):
            value[name] = prefix + word.upper()
    try:
        return json_format.ParseDict(value, wire.SubmitJobRequest())
    except json_format.ParseError as error:
        raise InvalidArgument(
            f"this is no job: {error}", hint="the fields are those of SubmitJobRequest"
        ) from error
