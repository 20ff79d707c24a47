"""The table of contents on an ordered store.

`toc_latest` has the number of a node's present version, and whether it is kept. A kept version is
stored for good under `{node id}:v{n:06}`, any other under `{node id}` until the next one replaces
it. A grip that its node no longer has is stale: it is removed when nothing is dirty, because no
parent can refer to it then, unless a kept version of a period has pinned it.
"""

from collections.abc import Iterator, Sequence

from agent_memory.features.toc.adapters import toc_codec
from agent_memory.features.toc.model import periods
from agent_memory.features.toc.model.editions import EditionRecord
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Erasure, Grip, TocChange, TocNode
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import Append, Delete, Operation, Put
from agent_memory.platform.store.rows import count, write

_CURSOR = b"checkpoint:segment-summarizer"
_EDITION = b"checkpoint:contents-rebuild"
_SEGMENT_NODES = b"toc:segment:"
_OPEN = b"open:"
_UNFINISHED = b"unfinished:"
_STALE = b"stale:"
_PINNED = b"pinned:"
_COLLECT = 1_000
_COUNT = 10_000  # keys per read
_GRIPS = 100_000  # of one millisecond


class StoredToc:
    """A TocReader, TocWriter, TocEditions and TocEraser."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def get_nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]:
        names = [node_id.encode() for node_id in node_ids]
        latest = self._store.get_many(families.TOC_LATEST, names)
        node_keys = [
            None if value is None else _node_key(name, *toc_codec.decode_pointer(value))
            for name, value in zip(names, latest, strict=True)
        ]
        present = [key for key in node_keys if key is not None]
        nodes = dict(zip(present, self._store.get_many(families.TOC_NODES, present), strict=True))
        values = [None if key is None else nodes[key] for key in node_keys]
        return [
            None if value is None else toc_codec.decode_node(node_id, value)
            for node_id, value in zip(node_ids, values, strict=True)
        ]

    def list_ids(
        self, prefix: str, /, *, after: str | None, limit: int, reverse: bool = False
    ) -> list[NodeId]:
        start, end = prefix.encode(), keys.end_of(prefix.encode())
        if after is not None:
            start, end = (start, after.encode()) if reverse else (keys.after(after.encode()), end)
        rows = self._store.scan(families.TOC_LATEST, start, end, limit=limit, reverse=reverse)
        return [NodeId(key.decode()) for key, _ in rows]

    def get_version(self, node_id: NodeId, version: int, /) -> TocNode | None:
        value = self._store.get(families.TOC_NODES, _version_key(node_id.encode(), version))
        if value is not None:
            return toc_codec.decode_node(node_id, value)
        (present,) = self.get_nodes([node_id])
        return present if present is not None and present.version == version else None

    def list_versions(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        prefix = node_id.encode() + b":v"
        rows = self._store.scan(
            families.TOC_NODES, prefix, keys.end_of(prefix), limit=limit, reverse=True
        )
        return [toc_codec.decode_node(node_id, value) for _, value in rows]

    def get_grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]:
        names = [grip_id.encode() for grip_id in grip_ids]
        return [
            None if value is None else toc_codec.decode_grip(grip_id, value)
            for grip_id, value in zip(
                grip_ids, self._store.get_many(families.GRIPS, names), strict=True
            )
        ]

    def list_grips(self, prefix: str, /, *, limit: int) -> list[Grip]:
        start = prefix.encode()
        rows = self._store.scan(families.GRIPS, start, keys.end_of(start), limit=limit)
        return [toc_codec.decode_grip(key.decode(), value) for key, value in rows]

    def cursor(self) -> int:
        value = self._store.get(families.PROGRESS, _CURSOR)
        if value is None:
            return 0
        number = codec.decode_key(value)
        if not number.isdigit():
            raise StorageFailed("the stored cursor of the table of contents is damaged")
        return int(number)

    def get_edition(self) -> EditionRecord | None:
        value = self._store.get(families.PROGRESS, _EDITION)
        return None if value is None else toc_codec.decode_edition(value)

    def count_segments(self) -> int:
        return count(self._store, families.TOC_LATEST, _SEGMENT_NODES, limit=_COUNT)

    def list_segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        prefix = keys.session(session_id)
        bound = keys.session_event(session_id, start.at_ms, start.event_id)
        first, last = (prefix, keys.after(bound)) if reverse else (bound, keys.end_of(prefix))
        rows = self._store.scan(families.SEGMENTS, first, last, limit=limit, reverse=reverse)
        return [
            toc_codec.decode_segment(session_id, keys.parse_position(key), value)
            for key, value in rows
        ]

    def list_open_segments(self, *, limit: int) -> list[Segment]:
        return self._list_marked(_OPEN, limit)

    def list_unfinished_segments(self, *, limit: int) -> list[Segment]:
        return self._list_marked(_UNFINISHED, limit)

    def _list_marked(self, mark: bytes, limit: int) -> list[Segment]:
        rows = self._store.scan(families.TOC_STATE, mark, keys.end_of(mark), limit=limit)
        names = [key[len(mark) :] for key, _ in rows]
        values = self._store.get_many(families.SEGMENTS, names)
        return [
            toc_codec.decode_segment(keys.parse_session(name), keys.parse_position(name), value)
            for name, value in zip(names, values, strict=True)
            if value is not None
        ]

    def list_dirty(self, level: Level, /, *, limit: int) -> list[NodeId]:
        prefix = b"dirty:%d:" % level
        rows = self._store.scan(families.TOC_STATE, prefix, keys.end_of(prefix), limit=limit)
        return [NodeId(key[len(prefix) :].decode()) for key, _ in rows]

    def commit(self, change: TocChange, /) -> None:
        write(self._store, *self._operations(change))

    def remove_stale_grips(self) -> int:
        removed = 0
        while True:
            rows = self._store.scan(families.TOC_STATE, _STALE, keys.end_of(_STALE), limit=_COLLECT)
            if not rows:
                return removed
            names = [key[len(_STALE) :] for key, _ in rows]
            pinned = self._store.get_many(families.TOC_STATE, [_PINNED + name for name in names])
            operations: list[Operation] = [Delete(families.TOC_STATE, key) for key, _ in rows]
            for name, pin in zip(names, pinned, strict=True):
                if pin is None:
                    operations.append(Delete(families.GRIPS, name))
                    removed += 1
            write(self._store, *operations)

    def find_grips(self, at: Position, /) -> list[Grip]:
        prefix = b"grip:%013d:" % at.at_ms
        rows = self._store.scan(families.GRIPS, prefix, keys.end_of(prefix), limit=_GRIPS)
        grips = (toc_codec.decode_grip(key.decode(), value) for key, value in rows)
        return [grip for grip in grips if at.event_id in (grip.event_id_start, grip.event_id_end)]

    def erase(self, erasure: Erasure, /) -> None:
        operations: list[Operation] = [
            Delete(families.TOC_NODES, _version_key(node_id.encode(), version))
            for node_id, version in erasure.versions
        ]
        for grip_id in erasure.grips:
            name = grip_id.encode()
            operations.append(Delete(families.GRIPS, name))
            operations += [Delete(families.TOC_STATE, mark + name) for mark in (_STALE, _PINNED)]
        operations += [
            Delete(families.TOC_STATE, _PINNED + name.encode()) for name in erasure.unpinned
        ]
        operations += [
            Put(families.TOC_STATE, _STALE + name.encode(), codec.EMPTY)
            for name in erasure.stale_grips
        ]
        write(self._store, *operations)

    def _operations(self, change: TocChange) -> Iterator[Operation]:
        for written in change.nodes:
            node = written.node
            name = node.node_id.encode()
            if written.kept:
                yield Put(
                    families.TOC_NODES,
                    _version_key(name, node.version),
                    toc_codec.encode_node(node),
                )
                yield Delete(families.TOC_NODES, name)
                if node.level is not Level.SEGMENT:
                    for grip_id in node.grip_ids():
                        yield Put(families.TOC_STATE, _PINNED + grip_id.encode(), codec.EMPTY)
            else:
                yield Put(families.TOC_NODES, name, toc_codec.encode_node(node))
            pointer = toc_codec.encode_pointer(node.version, written.kept)
            yield Put(families.TOC_LATEST, name, pointer)
        for node_id in change.gone:
            yield Delete(families.TOC_LATEST, node_id.encode())
            yield Delete(families.TOC_NODES, node_id.encode())
        for stale in change.stale_grips:
            yield Put(families.TOC_STATE, _STALE + stale.encode(), codec.EMPTY)
        for grip in change.grips:
            name = grip.grip_id.encode()
            yield Put(families.GRIPS, name, toc_codec.encode_grip(grip))
            yield Delete(families.TOC_STATE, _STALE + name)
        for segment in change.lost_segments:
            yield Delete(families.SEGMENTS, _segment_key(segment))
            for mark in (_OPEN, _UNFINISHED):
                yield Delete(families.TOC_STATE, mark + _segment_key(segment))
        for segment in change.segments:
            key = _segment_key(segment)
            yield Put(families.SEGMENTS, key, toc_codec.encode_segment(segment))
            for mark, holds in (
                (_OPEN, segment not in change.sealed),
                (_UNFINISHED, segment in change.unfinished),
            ):
                if holds:
                    yield Put(families.TOC_STATE, mark + key, codec.EMPTY)
                else:
                    yield Delete(families.TOC_STATE, mark + key)
        rewritten = {written.node.node_id for written in change.nodes}
        for segment in (*change.segments, *change.lost_segments, *change.redrafted):
            if segment.node_id in rewritten:
                entry = codec.encode_key(_segment_key(segment))
                yield Append(families.OUTBOX, keys.OUTBOX_PREFIX, entry)
        for node_id in change.clean:
            yield Delete(families.TOC_STATE, _dirty_key(node_id))
        for node_id in change.dirty:
            yield Put(families.TOC_STATE, _dirty_key(node_id), codec.EMPTY)
        if change.cursor is not None:
            yield Put(families.PROGRESS, _CURSOR, codec.encode_key(b"%d" % change.cursor))
        if change.edition is not None:
            yield Put(families.PROGRESS, _EDITION, toc_codec.encode_edition(change.edition))


def _node_key(name: bytes, version: int, kept: bool) -> bytes:
    return _version_key(name, version) if kept else name


def _version_key(name: bytes, version: int) -> bytes:
    return b"%s:v%06d" % (name, version)


def _segment_key(segment: Segment) -> bytes:
    return keys.session_event(segment.session_id, segment.first.at_ms, segment.first.event_id)


def _dirty_key(node_id: NodeId) -> bytes:
    return b"dirty:%d:%s" % (periods.parse_level(node_id), node_id.encode())
