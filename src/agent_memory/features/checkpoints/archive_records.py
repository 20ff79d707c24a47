"""Checkpoints in the archive of everything. In a line, `type` names the record, and
`serialized_as` the type of its bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_memory.features.checkpoints.model.graphs import (
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    PendingWrite,
)
from agent_memory.features.checkpoints.ports import GraphCheckpoints
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.archive_parts import ArchiveFormat

PAGE = 500
WRITE_BYTES = 4 << 20
_SERIALIZED = "serialized_as"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """A write after a checkpoint."""

    place: CheckpointKey
    write: PendingWrite


def list_records(checkpoints: GraphCheckpoints) -> Iterator[GraphCheckpoint | WriteRecord]:
    """Yield every checkpoint, and the writes after it."""
    after: CheckpointKey | None = None
    scope = CheckpointScope()
    while infos := checkpoints.list_infos(scope, after=after, before=None, limit=PAGE):
        for info in infos:
            found = checkpoints.get(*info.place)
            if found is None:
                raise StorageFailed(f"the checkpoint {info.place.checkpoint_id!r} has no state")
            yield found
            yield from _list_writes(checkpoints, info.place)
        after = infos[-1].place


def _list_writes(checkpoints: GraphCheckpoints, place: CheckpointKey) -> Iterator[WriteRecord]:
    after = None
    while True:
        page = checkpoints.list_writes(place, after=after, max_bytes=WRITE_BYTES, at_least_one=True)
        for write in page.writes:
            yield WriteRecord(place=place, write=write)
        if page.next is None:
            return
        after = page.next


def add_record(graphs: Graphs, record: GraphCheckpoint | WriteRecord) -> bool:
    """Store a record, unless there is one. Return whether it is new."""
    if isinstance(record, WriteRecord):
        if graphs.has_write(record.place, record.write):
            return False
        graphs.put_writes(record.place, [record.write]).result()
        return True
    checkpoint = graphs.clean(record)
    if graphs.checkpoints.get(*checkpoint.place) is not None:
        return False
    graphs.put(checkpoint).result()
    return True


def _write_fields(place: CheckpointKey, value: GraphCheckpoint | PendingWrite) -> dict[str, Any]:
    fields = msgspec.to_builtins(value, order="deterministic")
    own = {name: each for name, each in fields.items() if name not in ("place", "type")}
    return {**place._asdict(), _SERIALIZED: value.type, **own}


def _read_checkpoint(fields: dict[str, Any]) -> GraphCheckpoint:
    values = {**fields, "type": fields[_SERIALIZED], "place": list(_read_place(fields))}
    return msgspec.convert(values, GraphCheckpoint)


def _read_write(fields: dict[str, Any]) -> WriteRecord:
    write = msgspec.convert({**fields, "type": fields[_SERIALIZED]}, PendingWrite)
    return WriteRecord(place=_read_place(fields), write=write)


def _read_place(fields: dict[str, Any]) -> CheckpointKey:
    return msgspec.convert([fields[name] for name in CheckpointKey._fields], CheckpointKey)


FORMATS = {
    "checkpoint": ArchiveFormat(
        kind=GraphCheckpoint,
        write=lambda checkpoint: _write_fields(checkpoint.place, checkpoint),
        read=_read_checkpoint,
    ),
    "checkpoint_write": ArchiveFormat(
        kind=WriteRecord,
        write=lambda record: _write_fields(record.place, record.write),
        read=_read_write,
    ),
}
