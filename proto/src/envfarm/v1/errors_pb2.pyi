from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_CODE_UNSPECIFIED: _ClassVar[ErrorCode]
    ERROR_CODE_INVALID_ARGUMENT: _ClassVar[ErrorCode]
    ERROR_CODE_UNAUTHENTICATED: _ClassVar[ErrorCode]
    ERROR_CODE_WRONG_SCOPE: _ClassVar[ErrorCode]
    ERROR_CODE_TOO_LARGE: _ClassVar[ErrorCode]
    ERROR_CODE_UNKNOWN_TASK: _ClassVar[ErrorCode]
    ERROR_CODE_BROKEN_WORLD: _ClassVar[ErrorCode]
    ERROR_CODE_UNKNOWN_EPISODE: _ClassVar[ErrorCode]
    ERROR_CODE_WRONG_STATE: _ClassVar[ErrorCode]
    ERROR_CODE_LEASE_EXPIRED: _ClassVar[ErrorCode]
    ERROR_CODE_NO_CAPACITY: _ClassVar[ErrorCode]
    ERROR_CODE_DATABASE: _ClassVar[ErrorCode]
    ERROR_CODE_DEADLINE: _ClassVar[ErrorCode]
    ERROR_CODE_DRAINING: _ClassVar[ErrorCode]
    ERROR_CODE_FOREIGN_SERVER: _ClassVar[ErrorCode]
    ERROR_CODE_ENGINE: _ClassVar[ErrorCode]
    ERROR_CODE_VERSION_MISMATCH: _ClassVar[ErrorCode]
    ERROR_CODE_PROMPT_TOO_LONG: _ClassVar[ErrorCode]
    ERROR_CODE_ENDPOINT_BUSY: _ClassVar[ErrorCode]
    ERROR_CODE_ENDPOINT_REFUSED: _ClassVar[ErrorCode]
    ERROR_CODE_USER_MODEL: _ClassVar[ErrorCode]
    ERROR_CODE_NO_CHECKS: _ClassVar[ErrorCode]
    ERROR_CODE_EVIDENCE: _ClassVar[ErrorCode]
    ERROR_CODE_GRADER: _ClassVar[ErrorCode]
    ERROR_CODE_UNKNOWN_VERDICT: _ClassVar[ErrorCode]
    ERROR_CODE_STREAM: _ClassVar[ErrorCode]
    ERROR_CODE_BAD_GROUP: _ClassVar[ErrorCode]
    ERROR_CODE_CHECKPOINT: _ClassVar[ErrorCode]
    ERROR_CODE_FENCED: _ClassVar[ErrorCode]
    ERROR_CODE_CONFIG: _ClassVar[ErrorCode]
    ERROR_CODE_INTERNAL: _ClassVar[ErrorCode]
ERROR_CODE_UNSPECIFIED: ErrorCode
ERROR_CODE_INVALID_ARGUMENT: ErrorCode
ERROR_CODE_UNAUTHENTICATED: ErrorCode
ERROR_CODE_WRONG_SCOPE: ErrorCode
ERROR_CODE_TOO_LARGE: ErrorCode
ERROR_CODE_UNKNOWN_TASK: ErrorCode
ERROR_CODE_BROKEN_WORLD: ErrorCode
ERROR_CODE_UNKNOWN_EPISODE: ErrorCode
ERROR_CODE_WRONG_STATE: ErrorCode
ERROR_CODE_LEASE_EXPIRED: ErrorCode
ERROR_CODE_NO_CAPACITY: ErrorCode
ERROR_CODE_DATABASE: ErrorCode
ERROR_CODE_DEADLINE: ErrorCode
ERROR_CODE_DRAINING: ErrorCode
ERROR_CODE_FOREIGN_SERVER: ErrorCode
ERROR_CODE_ENGINE: ErrorCode
ERROR_CODE_VERSION_MISMATCH: ErrorCode
ERROR_CODE_PROMPT_TOO_LONG: ErrorCode
ERROR_CODE_ENDPOINT_BUSY: ErrorCode
ERROR_CODE_ENDPOINT_REFUSED: ErrorCode
ERROR_CODE_USER_MODEL: ErrorCode
ERROR_CODE_NO_CHECKS: ErrorCode
ERROR_CODE_EVIDENCE: ErrorCode
ERROR_CODE_GRADER: ErrorCode
ERROR_CODE_UNKNOWN_VERDICT: ErrorCode
ERROR_CODE_STREAM: ErrorCode
ERROR_CODE_BAD_GROUP: ErrorCode
ERROR_CODE_CHECKPOINT: ErrorCode
ERROR_CODE_FENCED: ErrorCode
ERROR_CODE_CONFIG: ErrorCode
ERROR_CODE_INTERNAL: ErrorCode

class ErrorDetail(_message.Message):
    __slots__ = ("code", "message", "hint", "retryable", "retry_after_seconds")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    hint: str
    retryable: bool
    retry_after_seconds: float
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., retryable: _Optional[bool] = ..., retry_after_seconds: _Optional[float] = ...) -> None: ...
