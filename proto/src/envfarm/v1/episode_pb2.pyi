from envfarm.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpisodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISODE_STATE_UNSPECIFIED: _ClassVar[EpisodeState]
    EPISODE_STATE_OPENING: _ClassVar[EpisodeState]
    EPISODE_STATE_RUNNING: _ClassVar[EpisodeState]
    EPISODE_STATE_SEALED: _ClassVar[EpisodeState]
    EPISODE_STATE_CLOSED: _ClassVar[EpisodeState]
    EPISODE_STATE_FAILED: _ClassVar[EpisodeState]

class SlotMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SLOT_MODE_UNSPECIFIED: _ClassVar[SlotMode]
    SLOT_MODE_FRESH: _ClassVar[SlotMode]
    SLOT_MODE_REUSE: _ClassVar[SlotMode]
EPISODE_STATE_UNSPECIFIED: EpisodeState
EPISODE_STATE_OPENING: EpisodeState
EPISODE_STATE_RUNNING: EpisodeState
EPISODE_STATE_SEALED: EpisodeState
EPISODE_STATE_CLOSED: EpisodeState
EPISODE_STATE_FAILED: EpisodeState
SLOT_MODE_UNSPECIFIED: SlotMode
SLOT_MODE_FRESH: SlotMode
SLOT_MODE_REUSE: SlotMode

class Episode(_message.Message):
    __slots__ = ("episode_id", "task", "initial_state_hash", "agent_token", "mcp_url", "env_server", "lease_seconds", "world_now", "slot_mode")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    AGENT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MCP_URL_FIELD_NUMBER: _ClassVar[int]
    ENV_SERVER_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORLD_NOW_FIELD_NUMBER: _ClassVar[int]
    SLOT_MODE_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    task: _task_pb2.Task
    initial_state_hash: str
    agent_token: str
    mcp_url: str
    env_server: str
    lease_seconds: float
    world_now: str
    slot_mode: SlotMode
    def __init__(self, episode_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ..., initial_state_hash: _Optional[str] = ..., agent_token: _Optional[str] = ..., mcp_url: _Optional[str] = ..., env_server: _Optional[str] = ..., lease_seconds: _Optional[float] = ..., world_now: _Optional[str] = ..., slot_mode: _Optional[_Union[SlotMode, str]] = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("content", "is_error", "seconds")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    content: str
    is_error: bool
    seconds: float
    def __init__(self, content: _Optional[str] = ..., is_error: _Optional[bool] = ..., seconds: _Optional[float] = ...) -> None: ...
