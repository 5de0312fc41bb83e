from envfarm.v1 import task_pb2 as _task_pb2
from envfarm.v1 import trajectory_pb2 as _trajectory_pb2
from envfarm.v1 import verdict_pb2 as _verdict_pb2
from envfarm.v1 import policy_pb2 as _policy_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CancelReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_REASON_UNSPECIFIED: _ClassVar[CancelReason]
    CANCEL_REASON_REFILL_CAP: _ClassVar[CancelReason]
    CANCEL_REASON_ZERO_VARIANCE: _ClassVar[CancelReason]
    CANCEL_REASON_STALE: _ClassVar[CancelReason]
    CANCEL_REASON_JOB_CANCELLED: _ClassVar[CancelReason]
    CANCEL_REASON_INCONSISTENT: _ClassVar[CancelReason]
    CANCEL_REASON_NOT_RUNNABLE: _ClassVar[CancelReason]
    CANCEL_REASON_SURPLUS: _ClassVar[CancelReason]
CANCEL_REASON_UNSPECIFIED: CancelReason
CANCEL_REASON_REFILL_CAP: CancelReason
CANCEL_REASON_ZERO_VARIANCE: CancelReason
CANCEL_REASON_STALE: CancelReason
CANCEL_REASON_JOB_CANCELLED: CancelReason
CANCEL_REASON_INCONSISTENT: CancelReason
CANCEL_REASON_NOT_RUNNABLE: CancelReason
CANCEL_REASON_SURPLUS: CancelReason

class Rollout(_message.Message):
    __slots__ = ("rollout_id", "slot", "attempt", "episode_id", "trajectory", "verdict", "seconds")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    slot: int
    attempt: int
    episode_id: str
    trajectory: _trajectory_pb2.Trajectory
    verdict: _verdict_pb2.Verdict
    seconds: float
    def __init__(self, rollout_id: _Optional[str] = ..., slot: _Optional[int] = ..., attempt: _Optional[int] = ..., episode_id: _Optional[str] = ..., trajectory: _Optional[_Union[_trajectory_pb2.Trajectory, _Mapping]] = ..., verdict: _Optional[_Union[_verdict_pb2.Verdict, _Mapping]] = ..., seconds: _Optional[float] = ...) -> None: ...

class FailedAttempt(_message.Message):
    __slots__ = ("rollout_id", "slot", "attempt", "status", "error_class", "boundary", "message")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_CLASS_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    slot: int
    attempt: int
    status: _trajectory_pb2.RolloutStatus
    error_class: str
    boundary: str
    message: str
    def __init__(self, rollout_id: _Optional[str] = ..., slot: _Optional[int] = ..., attempt: _Optional[int] = ..., status: _Optional[_Union[_trajectory_pb2.RolloutStatus, str]] = ..., error_class: _Optional[str] = ..., boundary: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("schema_version", "group_id", "run_id", "task", "initial_state_hash", "rollouts", "size", "failed_attempts", "policy", "formed_at")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    FAILED_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    FORMED_AT_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    group_id: str
    run_id: str
    task: _task_pb2.TaskRef
    initial_state_hash: str
    rollouts: _containers.RepeatedCompositeFieldContainer[Rollout]
    size: int
    failed_attempts: _containers.RepeatedCompositeFieldContainer[FailedAttempt]
    policy: _policy_pb2.PolicyVersion
    formed_at: float
    def __init__(self, schema_version: _Optional[int] = ..., group_id: _Optional[str] = ..., run_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., initial_state_hash: _Optional[str] = ..., rollouts: _Optional[_Iterable[_Union[Rollout, _Mapping]]] = ..., size: _Optional[int] = ..., failed_attempts: _Optional[_Iterable[_Union[FailedAttempt, _Mapping]]] = ..., policy: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., formed_at: _Optional[float] = ...) -> None: ...

class GroupOutcome(_message.Message):
    __slots__ = ("group_id", "task", "published", "cancelled", "rewards", "refilled_samples", "policy_number", "ended_at", "sha256", "formed_at", "policy", "view")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    REFILLED_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    POLICY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    FORMED_AT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    task: _task_pb2.TaskRef
    published: str
    cancelled: CancelReason
    rewards: _containers.RepeatedScalarFieldContainer[float]
    refilled_samples: int
    policy_number: int
    ended_at: float
    sha256: str
    formed_at: float
    policy: _policy_pb2.PolicyVersion
    view: RunView
    def __init__(self, group_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., published: _Optional[str] = ..., cancelled: _Optional[_Union[CancelReason, str]] = ..., rewards: _Optional[_Iterable[float]] = ..., refilled_samples: _Optional[int] = ..., policy_number: _Optional[int] = ..., ended_at: _Optional[float] = ..., sha256: _Optional[str] = ..., formed_at: _Optional[float] = ..., policy: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., view: _Optional[_Union[RunView, _Mapping]] = ...) -> None: ...

class RunView(_message.Message):
    __slots__ = ("version", "elsewhere", "dropped")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    version: int
    elsewhere: int
    dropped: int
    def __init__(self, version: _Optional[int] = ..., elsewhere: _Optional[int] = ..., dropped: _Optional[int] = ...) -> None: ...
