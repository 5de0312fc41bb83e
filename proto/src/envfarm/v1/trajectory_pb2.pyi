from envfarm.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RolloutStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_STATUS_UNSPECIFIED: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_COMPLETED: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_TRUNCATED_TOKENS: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_TRUNCATED_TURNS: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_TRUNCATED_CALLS: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_FAILED_ENV: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_FAILED_ENGINE: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_FAILED_USER: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_FAILED_GRADER: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_TIMED_OUT: _ClassVar[RolloutStatus]
    ROLLOUT_STATUS_CANCELLED: _ClassVar[RolloutStatus]

class TurnKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_KIND_UNSPECIFIED: _ClassVar[TurnKind]
    TURN_KIND_SYSTEM: _ClassVar[TurnKind]
    TURN_KIND_USER: _ClassVar[TurnKind]
    TURN_KIND_ASSISTANT: _ClassVar[TurnKind]
    TURN_KIND_TOOL: _ClassVar[TurnKind]
ROLLOUT_STATUS_UNSPECIFIED: RolloutStatus
ROLLOUT_STATUS_COMPLETED: RolloutStatus
ROLLOUT_STATUS_TRUNCATED_TOKENS: RolloutStatus
ROLLOUT_STATUS_TRUNCATED_TURNS: RolloutStatus
ROLLOUT_STATUS_TRUNCATED_CALLS: RolloutStatus
ROLLOUT_STATUS_FAILED_ENV: RolloutStatus
ROLLOUT_STATUS_FAILED_ENGINE: RolloutStatus
ROLLOUT_STATUS_FAILED_USER: RolloutStatus
ROLLOUT_STATUS_FAILED_GRADER: RolloutStatus
ROLLOUT_STATUS_TIMED_OUT: RolloutStatus
ROLLOUT_STATUS_CANCELLED: RolloutStatus
TURN_KIND_UNSPECIFIED: TurnKind
TURN_KIND_SYSTEM: TurnKind
TURN_KIND_USER: TurnKind
TURN_KIND_ASSISTANT: TurnKind
TURN_KIND_TOOL: TurnKind

class VersionSpan(_message.Message):
    __slots__ = ("start", "length", "version_number")
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    VERSION_NUMBER_FIELD_NUMBER: _ClassVar[int]
    start: int
    length: int
    version_number: int
    def __init__(self, start: _Optional[int] = ..., length: _Optional[int] = ..., version_number: _Optional[int] = ...) -> None: ...

class ToolCallRecord(_message.Message):
    __slots__ = ("name", "arguments_json", "content", "is_error", "seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    arguments_json: str
    content: str
    is_error: bool
    seconds: float
    def __init__(self, name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., seconds: _Optional[float] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("kind", "text", "reasoning", "calls", "token_start", "token_length", "calls_in_reasoning")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_START_FIELD_NUMBER: _ClassVar[int]
    TOKEN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CALLS_IN_REASONING_FIELD_NUMBER: _ClassVar[int]
    kind: TurnKind
    text: str
    reasoning: str
    calls: _containers.RepeatedCompositeFieldContainer[ToolCallRecord]
    token_start: int
    token_length: int
    calls_in_reasoning: int
    def __init__(self, kind: _Optional[_Union[TurnKind, str]] = ..., text: _Optional[str] = ..., reasoning: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[ToolCallRecord, _Mapping]]] = ..., token_start: _Optional[int] = ..., token_length: _Optional[int] = ..., calls_in_reasoning: _Optional[int] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("schema_version", "rollout_id", "task", "token_ids", "loss_mask", "logprobs", "version_spans", "turns", "status", "renderer_hash", "sampling_hash", "final_reply", "interface", "prompt_tokens", "sampled_tokens", "model")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOSS_MASK_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    VERSION_SPANS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RENDERER_HASH_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_HASH_FIELD_NUMBER: _ClassVar[int]
    FINAL_REPLY_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    rollout_id: str
    task: _task_pb2.TaskRef
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    loss_mask: bytes
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    version_spans: _containers.RepeatedCompositeFieldContainer[VersionSpan]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    status: RolloutStatus
    renderer_hash: str
    sampling_hash: str
    final_reply: str
    interface: str
    prompt_tokens: int
    sampled_tokens: int
    model: str
    def __init__(self, schema_version: _Optional[int] = ..., rollout_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., token_ids: _Optional[_Iterable[int]] = ..., loss_mask: _Optional[bytes] = ..., logprobs: _Optional[_Iterable[float]] = ..., version_spans: _Optional[_Iterable[_Union[VersionSpan, _Mapping]]] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., status: _Optional[_Union[RolloutStatus, str]] = ..., renderer_hash: _Optional[str] = ..., sampling_hash: _Optional[str] = ..., final_reply: _Optional[str] = ..., interface: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., sampled_tokens: _Optional[int] = ..., model: _Optional[str] = ...) -> None: ...
