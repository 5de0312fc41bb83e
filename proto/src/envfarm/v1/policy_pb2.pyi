from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PolicyVersion(_message.Message):
    __slots__ = ("run_id", "number", "weights_hash")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_HASH_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    number: int
    weights_hash: str
    def __init__(self, run_id: _Optional[str] = ..., number: _Optional[int] = ..., weights_hash: _Optional[str] = ...) -> None: ...

class ProbePrompt(_message.Message):
    __slots__ = ("token_ids", "logprobs", "tolerance")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    tolerance: float
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., tolerance: _Optional[float] = ...) -> None: ...

class WeightUpdate(_message.Message):
    __slots__ = ("version", "path", "probe", "learner_epoch")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    LEARNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    version: PolicyVersion
    path: str
    probe: ProbePrompt
    learner_epoch: int
    def __init__(self, version: _Optional[_Union[PolicyVersion, _Mapping]] = ..., path: _Optional[str] = ..., probe: _Optional[_Union[ProbePrompt, _Mapping]] = ..., learner_epoch: _Optional[int] = ...) -> None: ...
