from envfarm.v1 import episode_pb2 as _episode_pb2
from envfarm.v1 import policy_pb2 as _policy_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_KIND_UNSPECIFIED: _ClassVar[JobKind]
    JOB_KIND_TRAIN: _ClassVar[JobKind]
    JOB_KIND_PROBE: _ClassVar[JobKind]
    JOB_KIND_EVAL: _ClassVar[JobKind]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_DONE: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
JOB_KIND_UNSPECIFIED: JobKind
JOB_KIND_TRAIN: JobKind
JOB_KIND_PROBE: JobKind
JOB_KIND_EVAL: JobKind
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
    __slots__ = ("in_service", "jobs", "engines", "chat", "sampling_hash")
    IN_SERVICE_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ENGINES_FIELD_NUMBER: _ClassVar[int]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_HASH_FIELD_NUMBER: _ClassVar[int]
    in_service: _policy_pb2.PolicyVersion
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    engines: _containers.RepeatedCompositeFieldContainer[EngineStatus]
    chat: ChatEndpointStatus
    sampling_hash: str
    def __init__(self, in_service: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., engines: _Optional[_Iterable[_Union[EngineStatus, _Mapping]]] = ..., chat: _Optional[_Union[ChatEndpointStatus, _Mapping]] = ..., sampling_hash: _Optional[str] = ...) -> None: ...

class ChatEndpointStatus(_message.Message):
    __slots__ = ("url", "model", "sampling_hash")
    URL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_HASH_FIELD_NUMBER: _ClassVar[int]
    url: str
    model: str
    sampling_hash: str
    def __init__(self, url: _Optional[str] = ..., model: _Optional[str] = ..., sampling_hash: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("job_id", "run_id", "task_ids", "groups_per_task", "group_size", "publish", "keep_zero_variance", "kind", "seed", "slot_mode", "staleness", "groups_per_update", "updates", "policy", "share", "updates_per_version", "max_replacements", "interface", "reband_after")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    KEEP_ZERO_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SLOT_MODE_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_PER_UPDATE_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    UPDATES_PER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_REPLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    REBAND_AFTER_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    run_id: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    groups_per_task: int
    group_size: int
    publish: bool
    keep_zero_variance: bool
    kind: JobKind
    seed: int
    slot_mode: _episode_pb2.SlotMode
    staleness: int
    groups_per_update: int
    updates: int
    policy: _policy_pb2.PolicyVersion
    share: int
    updates_per_version: int
    max_replacements: int
    interface: str
    reband_after: int
    def __init__(self, job_id: _Optional[str] = ..., run_id: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., groups_per_task: _Optional[int] = ..., group_size: _Optional[int] = ..., publish: _Optional[bool] = ..., keep_zero_variance: _Optional[bool] = ..., kind: _Optional[_Union[JobKind, str]] = ..., seed: _Optional[int] = ..., slot_mode: _Optional[_Union[_episode_pb2.SlotMode, str]] = ..., staleness: _Optional[int] = ..., groups_per_update: _Optional[int] = ..., updates: _Optional[int] = ..., policy: _Optional[_Union[_policy_pb2.PolicyVersion, _Mapping]] = ..., share: _Optional[int] = ..., updates_per_version: _Optional[int] = ..., max_replacements: _Optional[int] = ..., interface: _Optional[str] = ..., reband_after: _Optional[int] = ...) -> None: ...

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

class ResumeJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: JobStatus
    def __init__(self, job: _Optional[_Union[JobStatus, _Mapping]] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "run_id", "state", "groups_total", "groups_published", "groups_cancelled", "groups_recorded", "rollouts_running", "refilled_samples", "waiting_for", "message", "kind", "replaced_zero_variance", "filled_zero_variance", "cancelled", "groups_dropped", "groups_running", "attempts", "waiting", "parked", "submitted_at", "ended_at", "sampled_tokens", "reward_mean", "attempts_total", "is_stream", "bands")
    class CancelledEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class WaitingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ParkedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class BandsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
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
    KIND_FIELD_NUMBER: _ClassVar[int]
    REPLACED_ZERO_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    FILLED_ZERO_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REWARD_MEAN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    IS_STREAM_FIELD_NUMBER: _ClassVar[int]
    BANDS_FIELD_NUMBER: _ClassVar[int]
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
    kind: JobKind
    replaced_zero_variance: int
    filled_zero_variance: int
    cancelled: _containers.ScalarMap[str, int]
    groups_dropped: int
    groups_running: int
    attempts: int
    waiting: _containers.ScalarMap[str, int]
    parked: _containers.ScalarMap[str, str]
    submitted_at: float
    ended_at: float
    sampled_tokens: int
    reward_mean: float
    attempts_total: int
    is_stream: bool
    bands: _containers.ScalarMap[str, str]
    def __init__(self, job_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., groups_total: _Optional[int] = ..., groups_published: _Optional[int] = ..., groups_cancelled: _Optional[int] = ..., groups_recorded: _Optional[int] = ..., rollouts_running: _Optional[int] = ..., refilled_samples: _Optional[int] = ..., waiting_for: _Optional[str] = ..., message: _Optional[str] = ..., kind: _Optional[_Union[JobKind, str]] = ..., replaced_zero_variance: _Optional[int] = ..., filled_zero_variance: _Optional[int] = ..., cancelled: _Optional[_Mapping[str, int]] = ..., groups_dropped: _Optional[int] = ..., groups_running: _Optional[int] = ..., attempts: _Optional[int] = ..., waiting: _Optional[_Mapping[str, int]] = ..., parked: _Optional[_Mapping[str, str]] = ..., submitted_at: _Optional[float] = ..., ended_at: _Optional[float] = ..., sampled_tokens: _Optional[int] = ..., reward_mean: _Optional[float] = ..., attempts_total: _Optional[int] = ..., is_stream: _Optional[bool] = ..., bands: _Optional[_Mapping[str, str]] = ...) -> None: ...
