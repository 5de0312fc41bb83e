from envfarm.v1 import policy_pb2 as _policy_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_DONE: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_DONE: JobState
JOB_STATE_CANCELLED: JobState
JOB_STATE_FAILED: JobState

class AnnouncePolicyRequest(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: _policy_pb2.WeightUpdate
    def __init__(self, update: _Optional[_Union[_policy_pb2.WeightUpdate, _Mapping]] = ...) -> None: ...

class AnnouncePolicyResponse(_message.Message):
    __slots__ = ("in_service", "max_logprob_gap", "seconds")
    IN_SERVICE_FIELD_NUMBER: _ClassVar[int]
    MAX_LOGPROB_GAP_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    in_service: _policy_pb2.PolicyVersion
    max_logprob_gap: float
    seconds: float
    def __init__(self, in_service: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., max_logprob_gap: _Optional[float] = ..., seconds: _Optional[float] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("in_service", "jobs", "engines")
    IN_SERVICE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    in_service: _policy_pb2.PolicyVersion
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    engines: _containers.RepeatedCompositeFieldContainer[EngineStatus]
    def __init__(self, in_service: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., engines: _Optional[_Iterable[_Union[EngineStatus, _Mapping]]] = ...) -> None: ...

class EngineStatus(_message.Message):
    __slots__ = ("url", "healthy", "running")
    URL_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    url: str
    healthy: bool
    running: int
    def __init__(self, url: _Optional[str] = ..., healthy: _Optional[bool] = ..., running: _Optional[int] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("job_id", "run_id", "task_ids", "groups_per_task", "group_size", "publish", "keep_zero_variance")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    KEEP_ZERO_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    run_id: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    groups_per_task: int
    group_size: int
    publish: bool
    keep_zero_variance: bool
    def __init__(self, job_id: _Optional[str] = ..., run_id: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., groups_per_task: _Optional[int] = ..., group_size: _Optional[int] = ..., publish: _Optional[bool] = ..., keep_zero_variance: _Optional[bool] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: JobStatus
    def __init__(self, job: _Optional[_Union[JobStatus, _Mapping]] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "run_id", "state", "groups_total", "groups_published", "groups_cancelled", "groups_recorded", "rollouts_running", "refilled_samples", "waiting_for", "message")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    GROUPS_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_RECORDED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    REFILLED_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    run_id: str
    state: JobState
    groups_total: int
    groups_published: int
    groups_cancelled: int
    groups_recorded: int
    rollouts_running: int
    refilled_samples: int
    waiting_for: str
    message: str
    def __init__(self, job_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., groups_total: _Optional[int] = ..., groups_published: _Optional[int] = ..., groups_cancelled: _Optional[int] = ..., groups_recorded: _Optional[int] = ..., rollouts_running: _Optional[int] = ..., refilled_samples: _Optional[int] = ..., waiting_for: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
