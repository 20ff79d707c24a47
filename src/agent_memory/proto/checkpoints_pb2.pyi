from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GraphCheckpoint(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "metadata", "type", "blob")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str
    metadata: str
    type: str
    blob: bytes
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., parent_checkpoint_id: _Optional[str] = ..., metadata: _Optional[str] = ..., type: _Optional[str] = ..., blob: _Optional[bytes] = ...) -> None: ...

class PendingWrite(_message.Message):
    __slots__ = ("task_id", "task_path", "index", "channel", "type", "value")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_PATH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    task_path: str
    index: int
    channel: str
    type: str
    value: bytes
    def __init__(self, task_id: _Optional[str] = ..., task_path: _Optional[str] = ..., index: _Optional[int] = ..., channel: _Optional[str] = ..., type: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class GraphSnapshot(_message.Message):
    __slots__ = ("checkpoint", "writes", "more_after")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    MORE_AFTER_FIELD_NUMBER: _ClassVar[int]
    checkpoint: GraphCheckpoint
    writes: _containers.RepeatedCompositeFieldContainer[PendingWrite]
    more_after: WriteCursor
    def __init__(self, checkpoint: _Optional[_Union[GraphCheckpoint, _Mapping]] = ..., writes: _Optional[_Iterable[_Union[PendingWrite, _Mapping]]] = ..., more_after: _Optional[_Union[WriteCursor, _Mapping]] = ...) -> None: ...

class WriteCursor(_message.Message):
    __slots__ = ("task_id", "index")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    index: int
    def __init__(self, task_id: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...

class PutCheckpointRequest(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: GraphCheckpoint
    def __init__(self, checkpoint: _Optional[_Union[GraphCheckpoint, _Mapping]] = ...) -> None: ...

class PutCheckpointResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PutWritesRequest(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "checkpoint_id", "writes")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    writes: _containers.RepeatedCompositeFieldContainer[PendingWrite]
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., writes: _Optional[_Iterable[_Union[PendingWrite, _Mapping]]] = ...) -> None: ...

class PutWritesResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCheckpointRequest(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "checkpoint_id")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., checkpoint_id: _Optional[str] = ...) -> None: ...

class GetCheckpointResponse(_message.Message):
    __slots__ = ("snapshot",)
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    snapshot: GraphSnapshot
    def __init__(self, snapshot: _Optional[_Union[GraphSnapshot, _Mapping]] = ...) -> None: ...

class GetWritesRequest(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "checkpoint_id", "after")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    after: WriteCursor
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., checkpoint_id: _Optional[str] = ..., after: _Optional[_Union[WriteCursor, _Mapping]] = ...) -> None: ...

class GetWritesResponse(_message.Message):
    __slots__ = ("writes", "more_after")
    WRITES_FIELD_NUMBER: _ClassVar[int]
    MORE_AFTER_FIELD_NUMBER: _ClassVar[int]
    writes: _containers.RepeatedCompositeFieldContainer[PendingWrite]
    more_after: WriteCursor
    def __init__(self, writes: _Optional[_Iterable[_Union[PendingWrite, _Mapping]]] = ..., more_after: _Optional[_Union[WriteCursor, _Mapping]] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "filter", "before", "limit", "after", "checkpoint_id")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    filter: str
    before: str
    limit: int
    after: CheckpointCursor
    checkpoint_id: str
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., filter: _Optional[str] = ..., before: _Optional[str] = ..., limit: _Optional[int] = ..., after: _Optional[_Union[CheckpointCursor, _Mapping]] = ..., checkpoint_id: _Optional[str] = ...) -> None: ...

class ListCheckpointsResponse(_message.Message):
    __slots__ = ("snapshots", "next")
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    snapshots: _containers.RepeatedCompositeFieldContainer[GraphSnapshot]
    next: CheckpointCursor
    def __init__(self, snapshots: _Optional[_Iterable[_Union[GraphSnapshot, _Mapping]]] = ..., next: _Optional[_Union[CheckpointCursor, _Mapping]] = ...) -> None: ...

class CheckpointCursor(_message.Message):
    __slots__ = ("thread_id", "checkpoint_ns", "checkpoint_id")
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_NS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    def __init__(self, thread_id: _Optional[str] = ..., checkpoint_ns: _Optional[str] = ..., checkpoint_id: _Optional[str] = ...) -> None: ...

class DeleteThreadsRequest(_message.Message):
    __slots__ = ("thread_ids",)
    THREAD_IDS_FIELD_NUMBER: _ClassVar[int]
    thread_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, thread_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteThreadsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteCheckpointsRequest(_message.Message):
    __slots__ = ("checkpoint_ids",)
    CHECKPOINT_IDS_FIELD_NUMBER: _ClassVar[int]
    checkpoint_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, checkpoint_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteCheckpointsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteForRunsRequest(_message.Message):
    __slots__ = ("run_ids",)
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteForRunsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CopyThreadRequest(_message.Message):
    __slots__ = ("source_thread_id", "target_thread_id")
    SOURCE_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    source_thread_id: str
    target_thread_id: str
    def __init__(self, source_thread_id: _Optional[str] = ..., target_thread_id: _Optional[str] = ...) -> None: ...

class CopyThreadResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PruneThreadsRequest(_message.Message):
    __slots__ = ("thread_ids", "strategy")
    THREAD_IDS_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    thread_ids: _containers.RepeatedScalarFieldContainer[str]
    strategy: str
    def __init__(self, thread_ids: _Optional[_Iterable[str]] = ..., strategy: _Optional[str] = ...) -> None: ...

class PruneThreadsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
