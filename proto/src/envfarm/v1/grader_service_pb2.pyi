from envfarm.v1 import task_pb2 as _task_pb2
from envfarm.v1 import evidence_pb2 as _evidence_pb2
from envfarm.v1 import verdict_pb2 as _verdict_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpisodeReference(_message.Message):
    __slots__ = ("env_server", "episode_id")
    ENV_SERVER_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    env_server: str
    episode_id: str
    def __init__(self, env_server: _Optional[str] = ..., episode_id: _Optional[str] = ...) -> None: ...

class StateTables(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[_evidence_pb2.TableRows]
    def __init__(self, tables: _Optional[_Iterable[_Union[_evidence_pb2.TableRows, _Mapping]]] = ...) -> None: ...

class GradeRequest(_message.Message):
    __slots__ = ("request_id", "task", "episode", "dsn", "state", "final_reply", "conversation_json")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    DSN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FINAL_REPLY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_JSON_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    task: _task_pb2.TaskRef
    episode: EpisodeReference
    dsn: str
    state: StateTables
    final_reply: str
    conversation_json: str
    def __init__(self, request_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., episode: _Optional[_Union[EpisodeReference, _Mapping]] = ..., dsn: _Optional[str] = ..., state: _Optional[_Union[StateTables, _Mapping]] = ..., final_reply: _Optional[str] = ..., conversation_json: _Optional[str] = ...) -> None: ...

class GradeResponse(_message.Message):
    __slots__ = ("verdict",)
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    verdict: _verdict_pb2.Verdict
    def __init__(self, verdict: _Optional[_Union[_verdict_pb2.Verdict, _Mapping]] = ...) -> None: ...

class GetVerdictRequest(_message.Message):
    __slots__ = ("verdict_id",)
    VERDICT_ID_FIELD_NUMBER: _ClassVar[int]
    verdict_id: str
    def __init__(self, verdict_id: _Optional[str] = ...) -> None: ...

class GetVerdictResponse(_message.Message):
    __slots__ = ("verdict",)
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    verdict: _verdict_pb2.Verdict
    def __init__(self, verdict: _Optional[_Union[_verdict_pb2.Verdict, _Mapping]] = ...) -> None: ...
