from envfarm.v1 import task_pb2 as _task_pb2
from envfarm.v1 import evidence_pb2 as _evidence_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VerdictStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_STATUS_UNSPECIFIED: _ClassVar[VerdictStatus]
    VERDICT_STATUS_GRADED: _ClassVar[VerdictStatus]
    VERDICT_STATUS_UNGRADABLE: _ClassVar[VerdictStatus]

class GradeInput(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRADE_INPUT_UNSPECIFIED: _ClassVar[GradeInput]
    GRADE_INPUT_EPISODE: _ClassVar[GradeInput]
    GRADE_INPUT_DSN: _ClassVar[GradeInput]
    GRADE_INPUT_STATE: _ClassVar[GradeInput]
    GRADE_INPUT_STORED: _ClassVar[GradeInput]
VERDICT_STATUS_UNSPECIFIED: VerdictStatus
VERDICT_STATUS_GRADED: VerdictStatus
VERDICT_STATUS_UNGRADABLE: VerdictStatus
GRADE_INPUT_UNSPECIFIED: GradeInput
GRADE_INPUT_EPISODE: GradeInput
GRADE_INPUT_DSN: GradeInput
GRADE_INPUT_STATE: GradeInput
GRADE_INPUT_STORED: GradeInput

class CheckResult(_message.Message):
    __slots__ = ("name", "kind", "passed", "expected", "observed", "judge")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_FIELD_NUMBER: _ClassVar[int]
    JUDGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    passed: bool
    expected: str
    observed: str
    judge: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., passed: _Optional[bool] = ..., expected: _Optional[str] = ..., observed: _Optional[str] = ..., judge: _Optional[str] = ...) -> None: ...

class UpstreamVerdict(_message.Message):
    __slots__ = ("harness", "result", "reward", "is_system_error", "detail", "line")
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    IS_SYSTEM_ERROR_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    harness: str
    result: bool
    reward: float
    is_system_error: bool
    detail: str
    line: int
    def __init__(self, harness: _Optional[str] = ..., result: _Optional[bool] = ..., reward: _Optional[float] = ..., is_system_error: _Optional[bool] = ..., detail: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("evidence_seconds", "checks_seconds")
    EVIDENCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHECKS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    evidence_seconds: float
    checks_seconds: float
    def __init__(self, evidence_seconds: _Optional[float] = ..., checks_seconds: _Optional[float] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("verdict_id", "request_id", "task", "status", "reward", "checks", "diff", "checks_hash", "grader_hash", "initial_state_hash", "final_state_hash", "ungradable_reason", "seconds", "world", "evidence_hash", "golden_hash", "input", "episode_id", "timings", "rules_hash", "judge_tokens", "as_upstream")
    VERDICT_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    CHECKS_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    CHECKS_HASH_FIELD_NUMBER: _ClassVar[int]
    GRADER_HASH_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    UNGRADABLE_REASON_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_HASH_FIELD_NUMBER: _ClassVar[int]
    GOLDEN_HASH_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    RULES_HASH_FIELD_NUMBER: _ClassVar[int]
    JUDGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    AS_UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    verdict_id: str
    request_id: str
    task: _task_pb2.TaskRef
    status: VerdictStatus
    reward: float
    checks: _containers.RepeatedCompositeFieldContainer[CheckResult]
    diff: _containers.RepeatedCompositeFieldContainer[_evidence_pb2.RowChange]
    checks_hash: str
    grader_hash: str
    initial_state_hash: str
    final_state_hash: str
    ungradable_reason: str
    seconds: float
    world: _task_pb2.WorldRef
    evidence_hash: str
    golden_hash: str
    input: GradeInput
    episode_id: str
    timings: Timings
    rules_hash: str
    judge_tokens: int
    as_upstream: UpstreamVerdict
    def __init__(self, verdict_id: _Optional[str] = ..., request_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., status: _Optional[_Union[VerdictStatus, str]] = ..., reward: _Optional[float] = ..., checks: _Optional[_Iterable[_Union[CheckResult, _Mapping]]] = ..., diff: _Optional[_Iterable[_Union[_evidence_pb2.RowChange, _Mapping]]] = ..., checks_hash: _Optional[str] = ..., grader_hash: _Optional[str] = ..., initial_state_hash: _Optional[str] = ..., final_state_hash: _Optional[str] = ..., ungradable_reason: _Optional[str] = ..., seconds: _Optional[float] = ..., world: _Optional[_Union[_task_pb2.WorldRef, _Mapping]] = ..., evidence_hash: _Optional[str] = ..., golden_hash: _Optional[str] = ..., input: _Optional[_Union[GradeInput, str]] = ..., episode_id: _Optional[str] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., rules_hash: _Optional[str] = ..., judge_tokens: _Optional[int] = ..., as_upstream: _Optional[_Union[UpstreamVerdict, _Mapping]] = ...) -> None: ...
