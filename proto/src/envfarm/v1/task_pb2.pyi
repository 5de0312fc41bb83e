from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_ACCESS_UNSPECIFIED: _ClassVar[ToolAccess]
    TOOL_ACCESS_READ: _ClassVar[ToolAccess]
    TOOL_ACCESS_WRITE: _ClassVar[ToolAccess]
TOOL_ACCESS_UNSPECIFIED: ToolAccess
TOOL_ACCESS_READ: ToolAccess
TOOL_ACCESS_WRITE: ToolAccess

class WorldRef(_message.Message):
    __slots__ = ("world_id", "world_hash")
    WORLD_ID_FIELD_NUMBER: _ClassVar[int]
    WORLD_HASH_FIELD_NUMBER: _ClassVar[int]
    world_id: str
    world_hash: str
    def __init__(self, world_id: _Optional[str] = ..., world_hash: _Optional[str] = ...) -> None: ...

class TaskRef(_message.Message):
    __slots__ = ("task_id", "task_hash")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_HASH_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    task_hash: str
    def __init__(self, task_id: _Optional[str] = ..., task_hash: _Optional[str] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_turns", "max_tool_calls", "max_turn_tokens", "max_total_tokens", "max_tool_seconds")
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_TURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_turns: int
    max_tool_calls: int
    max_turn_tokens: int
    max_total_tokens: int
    max_tool_seconds: float
    def __init__(self, max_turns: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_turn_tokens: _Optional[int] = ..., max_total_tokens: _Optional[int] = ..., max_tool_seconds: _Optional[float] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("ref", "world", "opening", "policy", "tools", "limits", "tags")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REF_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    OPENING_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    ref: TaskRef
    world: WorldRef
    opening: str
    policy: str
    tools: _containers.RepeatedCompositeFieldContainer[ToolSpec]
    limits: Limits
    tags: _containers.ScalarMap[str, str]
    def __init__(self, ref: _Optional[_Union[TaskRef, _Mapping]] = ..., world: _Optional[_Union[WorldRef, _Mapping]] = ..., opening: _Optional[str] = ..., policy: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[ToolSpec, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., tags: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ToolSpec(_message.Message):
    __slots__ = ("name", "description", "input_schema_json", "access")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema_json: str
    access: ToolAccess
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., access: _Optional[_Union[ToolAccess, str]] = ...) -> None: ...
