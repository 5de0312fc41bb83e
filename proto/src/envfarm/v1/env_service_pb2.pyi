from envfarm.v1 import task_pb2 as _task_pb2
from envfarm.v1 import episode_pb2 as _episode_pb2
from envfarm.v1 import evidence_pb2 as _evidence_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListTasksRequest(_message.Message):
    __slots__ = ("domain", "page_token")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    domain: str
    page_token: str
    def __init__(self, domain: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    next_page_token: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class OpenEpisodeRequest(_message.Message):
    __slots__ = ("request_id", "task_id", "task_hash", "slot_mode", "lease_seconds", "client")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_HASH_FIELD_NUMBER: _ClassVar[int]
    SLOT_MODE_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    task_id: str
    task_hash: str
    slot_mode: _episode_pb2.SlotMode
    lease_seconds: float
    client: str
    def __init__(self, request_id: _Optional[str] = ..., task_id: _Optional[str] = ..., task_hash: _Optional[str] = ..., slot_mode: _Optional[_Union[_episode_pb2.SlotMode, str]] = ..., lease_seconds: _Optional[float] = ..., client: _Optional[str] = ...) -> None: ...

class OpenEpisodeResponse(_message.Message):
    __slots__ = ("episode",)
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    episode: _episode_pb2.Episode
    def __init__(self, episode: _Optional[_Union[_episode_pb2.Episode, _Mapping]] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("episode_ids",)
    EPISODE_IDS_FIELD_NUMBER: _ClassVar[int]
    episode_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, episode_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("gone",)
    GONE_FIELD_NUMBER: _ClassVar[int]
    gone: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, gone: _Optional[_Iterable[str]] = ...) -> None: ...

class CallToolRequest(_message.Message):
    __slots__ = ("episode_id", "request_id", "tool", "arguments_json")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    request_id: str
    tool: str
    arguments_json: str
    def __init__(self, episode_id: _Optional[str] = ..., request_id: _Optional[str] = ..., tool: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _episode_pb2.ToolResult
    def __init__(self, result: _Optional[_Union[_episode_pb2.ToolResult, _Mapping]] = ...) -> None: ...

class SealEpisodeRequest(_message.Message):
    __slots__ = ("episode_id",)
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    def __init__(self, episode_id: _Optional[str] = ...) -> None: ...

class SealEpisodeResponse(_message.Message):
    __slots__ = ("final_state_hash", "tool_calls", "tool_seconds")
    FINAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    final_state_hash: str
    tool_calls: int
    tool_seconds: float
    def __init__(self, final_state_hash: _Optional[str] = ..., tool_calls: _Optional[int] = ..., tool_seconds: _Optional[float] = ...) -> None: ...

class ReadEvidenceRequest(_message.Message):
    __slots__ = ("episode_id", "whole_tables")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    WHOLE_TABLES_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    whole_tables: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, episode_id: _Optional[str] = ..., whole_tables: _Optional[_Iterable[str]] = ...) -> None: ...

class RunReadOnlyRequest(_message.Message):
    __slots__ = ("episode_id", "query", "max_rows")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    query: str
    max_rows: int
    def __init__(self, episode_id: _Optional[str] = ..., query: _Optional[str] = ..., max_rows: _Optional[int] = ...) -> None: ...

class RunReadOnlyResponse(_message.Message):
    __slots__ = ("columns", "rows_json")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_JSON_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedScalarFieldContainer[str]
    rows_json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, columns: _Optional[_Iterable[str]] = ..., rows_json: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeWorldRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class DescribeWorldResponse(_message.Message):
    __slots__ = ("world", "world_now", "schema_sql")
    WORLD_FIELD_NUMBER: _ClassVar[int]
    WORLD_NOW_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_SQL_FIELD_NUMBER: _ClassVar[int]
    world: _task_pb2.WorldRef
    world_now: str
    schema_sql: str
    def __init__(self, world: _Optional[_Union[_task_pb2.WorldRef, _Mapping]] = ..., world_now: _Optional[str] = ..., schema_sql: _Optional[str] = ...) -> None: ...

class CloseEpisodeRequest(_message.Message):
    __slots__ = ("episode_id",)
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    def __init__(self, episode_id: _Optional[str] = ...) -> None: ...

class CloseEpisodeResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _episode_pb2.EpisodeState
    def __init__(self, state: _Optional[_Union[_episode_pb2.EpisodeState, str]] = ...) -> None: ...

class GetCapacityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCapacityResponse(_message.Message):
    __slots__ = ("max_episodes", "live_episodes", "ready_slots", "draining", "postgres_version", "not_reused")
    class ReadySlotsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class NotReusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MAX_EPISODES_FIELD_NUMBER: _ClassVar[int]
    LIVE_EPISODES_FIELD_NUMBER: _ClassVar[int]
    READY_SLOTS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    POSTGRES_VERSION_FIELD_NUMBER: _ClassVar[int]
    NOT_REUSED_FIELD_NUMBER: _ClassVar[int]
    max_episodes: int
    live_episodes: int
    ready_slots: _containers.ScalarMap[str, int]
    draining: bool
    postgres_version: str
    not_reused: _containers.ScalarMap[str, str]
    def __init__(self, max_episodes: _Optional[int] = ..., live_episodes: _Optional[int] = ..., ready_slots: _Optional[_Mapping[str, int]] = ..., draining: _Optional[bool] = ..., postgres_version: _Optional[str] = ..., not_reused: _Optional[_Mapping[str, str]] = ...) -> None: ...
