"""Layout of the family `graph_checkpoints`: the rows and their order.

    head    thread, namespace, checkpoint               all but its state
    blob    thread, namespace, checkpoint               its state, and how that is serialized
    write   thread, namespace, checkpoint, task, index  channel and size of a write after it
    value   thread, namespace, checkpoint, task, index  the written value
    id      checkpoint, thread, namespace               the order of all, and where an id is used
    thread  thread, checkpoint, namespace               the order of a thread
    run     run, thread, namespace, checkpoint          the checkpoints of a run

The parts of a key are printable, so a zero byte between them preserves their order: the latest of a
thread and namespace is the last of its heads. Lists read neither states nor values.
"""

import msgspec

from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    PendingWrite,
    ThreadId,
    WriteKey,
)
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Absent, Batch, Delete, Operation, Put

FAMILY = families.GRAPH_CHECKPOINTS
HEAD, BLOB, WRITE, VALUE = b"head", b"blob", b"write", b"value"
ID, THREAD, RUN = b"id", b"thread", b"run"
_LEAST_INDEX = -(1 << 31)
BEFORE_ALL = WriteKey("", _LEAST_INDEX)
# The whole family in ranges, each with the number of rows to read at once: states and values have
# up to 15 MiB, heads half a MiB.
SPANS = (
    (b"", HEAD, 8),
    (HEAD, ID, 64),
    (ID, VALUE, 500),
    (VALUE, WRITE, 8),
    (WRITE, b"\xff", 500),
)


class _Head(msgspec.Struct, array_like=True, frozen=True):
    parent_checkpoint_id: str | None
    step: int | None
    source: str | None
    run_id: str | None
    metadata: str
    blob_size: int


class WriteHead(msgspec.Struct, array_like=True, frozen=True):
    task_path: str
    channel: str
    type: str
    size: int


def key(kind: bytes, *parts: str) -> bytes:
    return b"\0".join((kind, *(part.encode() for part in parts)))


def prefix(kind: bytes, *parts: str) -> bytes:
    return key(kind, *parts) + b"\0"


def id_key(place: CheckpointKey) -> bytes:
    return key(ID, place.checkpoint_id, place.thread_id, place.checkpoint_ns)


def _thread_key(place: CheckpointKey) -> bytes:
    return key(THREAD, place.thread_id, place.checkpoint_id, place.checkpoint_ns)


def write_key(place: CheckpointKey, write: WriteKey) -> bytes:
    return b"%s%010d" % (prefix(WRITE, *place, write.task_id), write.number - _LEAST_INDEX)


def parse_write_key(raw: bytes) -> WriteKey:
    task_id, index = raw.split(b"\0")[4:]
    return WriteKey(task_id.decode(), int(index) + _LEAST_INDEX)


def value_key(raw: bytes) -> bytes:
    """Return the key of a value from that of its write."""
    return VALUE + raw.removeprefix(WRITE)


def parse_place(raw: bytes) -> CheckpointKey:
    """Return the checkpoint of a head, an index entry or a write."""
    kind, *parts = raw.split(b"\0")
    names = [part.decode() for part in parts]
    if kind == ID:
        checkpoint, thread, space = names
    elif kind == THREAD:
        thread, checkpoint, space = names
    elif kind == RUN:
        _, thread, space, checkpoint = names
    else:
        thread, space, checkpoint = names[:3]
    return CheckpointKey(ThreadId(thread), space, CheckpointId(checkpoint))


def scan_range(
    scope: CheckpointScope, after: CheckpointKey | None, before: CheckpointId | None
) -> tuple[bytes, bytes]:
    """Return the range that lists this scope newest first, when read in reverse."""
    if scope.thread_id is None:
        start = prefix(ID)
        ends = [] if after is None else [id_key(after)]
    elif scope.checkpoint_ns is None:
        start = prefix(THREAD, scope.thread_id)
        ends = [] if after is None else [_thread_key(after)]
    else:
        start = prefix(HEAD, scope.thread_id, scope.checkpoint_ns)
        ends = [] if after is None else [key(HEAD, *after)]
    if before is not None:
        ends.append(start + before.encode())
    return start, min([keys.end_of(start), *ends])


def build_checkpoint(info: CheckpointInfo, blob: bytes) -> Batch:
    """Build the batch for a checkpoint that must not exist yet."""
    head = msgspec.convert(info, _Head, from_attributes=True)
    operations = [
        Put(FAMILY, key(HEAD, *info.place), codec.pack(head)),
        Put(FAMILY, key(BLOB, *info.place), blob),
        Put(FAMILY, id_key(info.place), codec.EMPTY),
        Put(FAMILY, _thread_key(info.place), codec.EMPTY),
    ]
    if info.run_id is not None:
        operations.append(Put(FAMILY, key(RUN, info.run_id, *info.place), codec.EMPTY))
    return Batch(tuple(operations), (Absent(FAMILY, key(HEAD, *info.place)),))


def build_write(place: CheckpointKey, write: PendingWrite) -> Batch:
    """Build the batch for a write: the first of an index counts; of negative indexes, the last."""
    at = write_key(place, WriteKey(write.task_id, write.index))
    head = WriteHead(write.task_path, write.channel, write.type, len(write.value))
    return Batch(
        (
            Put(FAMILY, at, codec.pack(head)),
            Put(FAMILY, value_key(at), codec.encode_key(write.value)),
        ),
        (Absent(FAMILY, at),) if write.index >= 0 else (),
    )


def build_write_copy(place: CheckpointKey, at: bytes, head: bytes, value: bytes) -> Batch:
    """Copy a write to another checkpoint, unless it has one."""
    target = write_key(place, parse_write_key(at))
    operations = Put(FAMILY, target, head), Put(FAMILY, value_key(target), value)
    return Batch(operations, (Absent(FAMILY, target),))


def build_removal(info: CheckpointInfo) -> list[Operation]:
    """Remove a checkpoint without its writes."""
    removed = [key(HEAD, *info.place), key(BLOB, *info.place)]
    removed += [id_key(info.place), _thread_key(info.place)]
    if info.run_id is not None:
        removed.append(key(RUN, info.run_id, *info.place))
    return [Delete(FAMILY, row) for row in removed]


def build_write_removal(at: bytes) -> list[Operation]:
    return [Delete(FAMILY, at), Delete(FAMILY, value_key(at))]


def decode_head(place: CheckpointKey, value: bytes) -> CheckpointInfo:
    return CheckpointInfo(place=place, **msgspec.structs.asdict(codec.unpack(value, _Head)))


def encode_blob(checkpoint: GraphCheckpoint) -> bytes:
    """Encode the name of the serialization, then its bytes unchanged."""
    name = checkpoint.type.encode()
    return b"".join((codec.EMPTY, bytes([len(name)]), name, checkpoint.blob))


def decode_blob(info: CheckpointInfo, value: bytes) -> GraphCheckpoint:
    body = codec.decode_key(value)
    try:
        end = 1 + body[0]
        if end > len(body):
            raise ValueError("ends within its type name")
        return GraphCheckpoint(
            place=info.place,
            parent_checkpoint_id=info.parent_checkpoint_id,
            metadata=info.metadata,
            type=body[1:end].decode(),
            blob=body[end:],
        )
    except (IndexError, ValueError, InvalidInput) as exc:
        raise StorageFailed(f"the stored checkpoint {info.place} is damaged") from exc


def decode_write(at: bytes, head: WriteHead, value: bytes) -> PendingWrite:
    task_id, index = parse_write_key(at)
    try:
        return PendingWrite(
            task_id=task_id,
            index=index,
            channel=head.channel,
            type=head.type,
            value=codec.decode_key(value),
            task_path=head.task_path,
        )
    except InvalidInput as exc:
        raise StorageFailed(f"a stored write of {parse_place(at)} is damaged") from exc
