from envfarm.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RowOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROW_OP_UNSPECIFIED: _ClassVar[RowOp]
    ROW_OP_INSERT: _ClassVar[RowOp]
    ROW_OP_UPDATE: _ClassVar[RowOp]
    ROW_OP_DELETE: _ClassVar[RowOp]

class EvidenceSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVIDENCE_SOURCE_UNSPECIFIED: _ClassVar[EvidenceSource]
    EVIDENCE_SOURCE_WHOLE_TABLES: _ClassVar[EvidenceSource]
    EVIDENCE_SOURCE_JOURNAL: _ClassVar[EvidenceSource]
ROW_OP_UNSPECIFIED: RowOp
ROW_OP_INSERT: RowOp
ROW_OP_UPDATE: RowOp
ROW_OP_DELETE: RowOp
EVIDENCE_SOURCE_UNSPECIFIED: EvidenceSource
EVIDENCE_SOURCE_WHOLE_TABLES: EvidenceSource
EVIDENCE_SOURCE_JOURNAL: EvidenceSource

class RowChange(_message.Message):
    __slots__ = ("table", "key_json", "op", "before_json", "after_json")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEY_JSON_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    BEFORE_JSON_FIELD_NUMBER: _ClassVar[int]
    AFTER_JSON_FIELD_NUMBER: _ClassVar[int]
    table: str
    key_json: str
    op: RowOp
    before_json: str
    after_json: str
    def __init__(self, table: _Optional[str] = ..., key_json: _Optional[str] = ..., op: _Optional[_Union[RowOp, str]] = ..., before_json: _Optional[str] = ..., after_json: _Optional[str] = ...) -> None: ...

class TableDigest(_message.Message):
    __slots__ = ("table", "rows", "hash", "key_columns", "columns")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    KEY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    table: str
    rows: int
    hash: str
    key_columns: _containers.RepeatedScalarFieldContainer[str]
    columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., rows: _Optional[int] = ..., hash: _Optional[str] = ..., key_columns: _Optional[_Iterable[str]] = ..., columns: _Optional[_Iterable[str]] = ...) -> None: ...

class EvidenceHeader(_message.Message):
    __slots__ = ("episode_id", "task", "world", "initial_state_hash", "final_state_hash", "source", "tables")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    WORLD_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    task: _task_pb2.TaskRef
    world: _task_pb2.WorldRef
    initial_state_hash: str
    final_state_hash: str
    source: EvidenceSource
    tables: _containers.RepeatedCompositeFieldContainer[TableDigest]
    def __init__(self, episode_id: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskRef, _Mapping]] = ..., world: _Optional[_Union[_task_pb2.WorldRef, _Mapping]] = ..., initial_state_hash: _Optional[str] = ..., final_state_hash: _Optional[str] = ..., source: _Optional[_Union[EvidenceSource, str]] = ..., tables: _Optional[_Iterable[_Union[TableDigest, _Mapping]]] = ...) -> None: ...

class TableRows(_message.Message):
    __slots__ = ("table", "rows_json")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_JSON_FIELD_NUMBER: _ClassVar[int]
    table: str
    rows_json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table: _Optional[str] = ..., rows_json: _Optional[_Iterable[str]] = ...) -> None: ...

class EvidenceChunk(_message.Message):
    __slots__ = ("header", "changes", "rows")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    header: EvidenceHeader
    changes: RowChanges
    rows: TableRows
    def __init__(self, header: _Optional[_Union[EvidenceHeader, _Mapping]] = ..., changes: _Optional[_Union[RowChanges, _Mapping]] = ..., rows: _Optional[_Union[TableRows, _Mapping]] = ...) -> None: ...

class RowChanges(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[RowChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[RowChange, _Mapping]]] = ...) -> None: ...
