"""Graph checkpoints on an ordered store: reads and writes of a running graph."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from agent_memory.features.checkpoints.adapters import graph_layout as layout
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    PendingWrite,
    ThreadId,
    WriteKey,
    WritesPage,
)
from agent_memory.kernel import futures
from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, keys
from agent_memory.platform.store.batches import Batch, CommitOutcome, Committed, Row

HEADS = 64  # per read: each may have half a MiB of metadata
ENTRIES = 10_000  # of an index, or of writes without their values
_VALUES = 64


class StoredGraphs:
    def __init__(self, store: OrderedStore, tally: GraphTally) -> None:
        self._store = store
        self._tally = tally

    def put(self, checkpoint: GraphCheckpoint, /) -> "Future[None]":
        place = checkpoint.place
        batch = layout.build_checkpoint(checkpoint.info, layout.encode_blob(checkpoint))
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()

        ticket = self._tally.begin()

        def settle(outcomes: "Future[list[CommitOutcome]]", *, again: bool = False) -> None:
            try:
                is_new = isinstance(outcomes.result()[0], Committed)
                if not is_new and not again:
                    # It exists, or did a moment ago: submit the insert and a replacement in a row.
                    both = self._store.submit([batch, Batch(batch.operations)])
                    both.add_done_callback(lambda replaced: settle(replaced, again=True))
                    return
            except BaseException as exc:
                self._tally.end(ticket)
                done.set_exception(exc)
            else:
                self._tally.end(ticket, [place] if is_new else [])
                done.set_result(None)

        try:
            self._store.submit([batch]).add_done_callback(settle)
        except BaseException:
            self._tally.end(ticket)
            raise
        return done

    def put_writes(self, place: CheckpointKey, writes: Sequence[PendingWrite], /) -> "Future[None]":
        # One submission is written atomically, whatever each of its batches expects.
        batches = [layout.build_write(place, write) for write in writes]
        return futures.map_future(self._store.submit(batches), lambda _: None)

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None, /
    ) -> GraphCheckpoint | None:
        missed: CheckpointInfo | None = None
        while (info := self._info(thread_id, checkpoint_ns, checkpoint_id)) is not None:
            blob = self._store.get(layout.FAMILY, layout.key(layout.BLOB, *info.place))
            if blob is not None:
                return layout.decode_blob(info, blob)
            if info == missed:
                raise StorageFailed(f"the stored checkpoint {info.place} has no state")
            missed = info  # removed between two reads
        return None

    def list_writes(
        self, place: CheckpointKey, /, *, after: WriteKey | None, max_bytes: int, at_least_one: bool
    ) -> WritesPage:
        rows: list[tuple[bytes, layout.WriteHead]] = []
        size = 0
        for at, row in iter_write_rows(self._store, place, after):
            head = codec.unpack(row, layout.WriteHead)
            size += head.size + len(at) + len(row)
            if size > max_bytes and (rows or not at_least_one):
                last = layout.parse_write_key(rows[-1][0]) if rows else after
                return WritesPage(self._values(rows), last or layout.BEFORE_ALL)
            rows.append((at, head))
        return WritesPage(self._values(rows))

    def list_infos(
        self,
        scope: CheckpointScope,
        /,
        *,
        after: CheckpointKey | None,
        before: CheckpointId | None,
        limit: int,
        offset: int = 0,
    ) -> list[CheckpointInfo]:
        start, end = layout.scan_range(scope, after, before)
        while offset > 0:  # in bounded steps, however far it is
            skipped = self._scan_back(start, end, min(offset, ENTRIES))
            if not skipped:
                return []
            end, offset = skipped[-1][0], offset - len(skipped)
        while rows := self._scan_back(start, end, limit):
            if rows[0][0].startswith(layout.prefix(layout.HEAD)):
                return [layout.decode_head(layout.parse_place(at), value) for at, value in rows]
            if infos := read_heads(self._store, [layout.parse_place(at) for at, _ in rows]):
                return infos
            end = rows[-1][0]  # all were removed between two reads
        return []

    def count(self, thread_id: ThreadId | None, /) -> int:
        if thread_id is None:
            return self._tally.total()
        prefix = layout.prefix(layout.THREAD, thread_id)
        return sum(1 for _ in iter_rows(self._store, prefix, ENTRIES))

    def _info(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None
    ) -> CheckpointInfo | None:
        if checkpoint_id is not None:
            infos = read_heads(
                self._store, [CheckpointKey(thread_id, checkpoint_ns, checkpoint_id)]
            )
        else:
            scope = CheckpointScope(thread_id, checkpoint_ns)
            infos = self.list_infos(scope, after=None, before=None, limit=1)
        return infos[0] if infos else None

    def _scan_back(self, start: bytes, end: bytes, limit: int) -> list[Row]:
        return self._store.scan(layout.FAMILY, start, end, limit=limit, reverse=True)

    def _values(self, rows: Sequence[tuple[bytes, layout.WriteHead]]) -> tuple[PendingWrite, ...]:
        writes: list[PendingWrite] = []
        for start in range(0, len(rows), _VALUES):
            chunk = rows[start : start + _VALUES]
            values = self._store.get_many(layout.FAMILY, [layout.value_key(at) for at, _ in chunk])
            writes += [
                layout.decode_write(at, head, value)
                for (at, head), value in zip(chunk, values, strict=True)
                if value is not None  # removed meanwhile
            ]
        return tuple(writes)


def read_heads(store: OrderedStore, places: Sequence[CheckpointKey]) -> list[CheckpointInfo]:
    """Read the heads of those that exist, in this order."""
    infos: list[CheckpointInfo] = []
    for start in range(0, len(places), HEADS):
        chunk = places[start : start + HEADS]
        values = store.get_many(layout.FAMILY, [layout.key(layout.HEAD, *at) for at in chunk])
        infos += [
            layout.decode_head(at, value)
            for at, value in zip(chunk, values, strict=True)
            if value is not None
        ]
    return infos


def iter_write_rows(
    store: OrderedStore, place: CheckpointKey, after: WriteKey | None
) -> Iterator[Row]:
    """Yield the rows of writes, without values."""
    prefix = layout.prefix(layout.WRITE, *place)
    first = prefix if after is None else keys.after(layout.write_key(place, after))
    return iter_rows(store, prefix, ENTRIES, first=first)


def iter_rows(
    store: OrderedStore, prefix: bytes, page: int, *, first: bytes | None = None
) -> Iterator[Row]:
    """Yield all rows with this prefix, a page at a time."""
    start, end = first or prefix, keys.end_of(prefix)
    while rows := store.scan(layout.FAMILY, start, end, limit=page):
        yield from rows
        if len(rows) < page:
            return
        start = keys.after(rows[-1][0])
