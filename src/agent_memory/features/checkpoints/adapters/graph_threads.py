"""Threads of graphs on an ordered store: remove or copy many checkpoints at once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agent_memory.features.checkpoints.adapters import graph_layout as layout
from agent_memory.features.checkpoints.adapters.graph_store import (
    ENTRIES,
    HEADS,
    iter_rows,
    iter_write_rows,
    read_heads,
)
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    GraphRunId,
    ThreadId,
)
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store.batches import Batch, Committed, Operation
from agent_memory.platform.store.rows import write

_OPERATIONS = 20_000  # per submission
_BYTES = 32 << 20


class StoredGraphThreads:
    def __init__(self, store: OrderedStore, tally: GraphTally) -> None:
        self._store = store
        self._tally = tally

    def count_by_thread(self) -> dict[ThreadId, tuple[int, CheckpointKey]]:
        counts: dict[ThreadId, tuple[int, CheckpointKey]] = {}
        # In the order of ids within a thread: the last of them is the latest.
        for at, _ in iter_rows(self._store, layout.prefix(layout.THREAD), ENTRIES):
            place = layout.parse_place(at)
            count, _ = counts.get(place.thread_id, (0, place))
            counts[place.thread_id] = count + 1, place
        return counts

    def remove_thread(self, thread_id: ThreadId, /) -> None:
        with self._tally.removing:
            removal = _Removal(self._store, self._tally)
            for at, value in iter_rows(self._store, layout.prefix(layout.HEAD, thread_id), HEADS):
                removal.add(layout.decode_head(layout.parse_place(at), value))
            # Include writes whose checkpoint never came.
            for at, _ in iter_rows(self._store, layout.prefix(layout.WRITE, thread_id), ENTRIES):
                removal.add_write(at)
            removal.finish()

    def remove(self, places: Sequence[CheckpointKey], /) -> None:
        with self._tally.removing:
            removal = _Removal(self._store, self._tally)
            unique = list(dict.fromkeys(places))
            for start in range(0, len(unique), HEADS):
                for info in read_heads(self._store, unique[start : start + HEADS]):
                    removal.add(info)
                    for at, _ in iter_write_rows(self._store, info.place, None):
                        removal.add_write(at)
            removal.finish()

    def find_by_id(self, checkpoint_id: CheckpointId, /) -> list[CheckpointKey]:
        rows = iter_rows(self._store, layout.prefix(layout.ID, checkpoint_id), ENTRIES)
        return [layout.parse_place(at) for at, _ in rows]

    def find_by_run(self, run_id: GraphRunId, /) -> list[CheckpointKey]:
        rows = iter_rows(self._store, layout.prefix(layout.RUN, run_id), ENTRIES)
        infos = read_heads(self._store, [layout.parse_place(at) for at, _ in rows])
        # A checkpoint that was put again may belong to another run by now.
        return [info.place for info in infos if info.run_id == run_id]

    def copy(self, source: ThreadId, target: ThreadId, /) -> None:
        if source == target:
            return
        with self._tally.removing:
            copy = _Copy(self._store, self._tally)
            rows = iter_rows(self._store, layout.prefix(layout.THREAD, source), ENTRIES)
            for at, _ in rows:  # in the order of ids: oldest first
                copy.add(layout.parse_place(at), target)
            copy.finish()


class _Removal:
    def __init__(self, store: OrderedStore, tally: GraphTally) -> None:
        self._store = store
        self._tally = tally
        self._operations: list[Operation] = []
        self._places: list[CheckpointKey] = []

    def add(self, info: CheckpointInfo) -> None:
        self._places.append(info.place)
        self._extend(layout.build_removal(info))

    def add_write(self, at: bytes) -> None:
        self._extend(layout.build_write_removal(at))

    def _extend(self, operations: Iterable[Operation]) -> None:
        self._operations += operations
        if len(self._operations) >= _OPERATIONS:
            self.finish()

    def finish(self) -> None:
        if self._operations:
            write(self._store, *self._operations)
            self._tally.subtract(self._places)
            self._operations, self._places = [], []


class _Copy:
    """Batches collected until they are worth writing; those of one submission appear together."""

    def __init__(self, store: OrderedStore, tally: GraphTally) -> None:
        self._store = store
        self._tally = tally
        self._batches: list[tuple[Batch, CheckpointKey | None]] = []
        self._size = 0

    def add(self, place: CheckpointKey, target: ThreadId) -> None:
        blob = self._store.get(layout.FAMILY, layout.key(layout.BLOB, *place))
        heads = read_heads(self._store, [place])
        if not heads or blob is None:
            return
        copied = place._replace(thread_id=target)
        self._extend(layout.build_checkpoint(replace(heads[0], place=copied), blob), copied)
        for at, value in iter_write_rows(self._store, place, None):
            written = self._store.get(layout.FAMILY, layout.value_key(at))
            if written is not None:
                self._extend(layout.build_write_copy(copied, at, value, written))

    def _extend(self, batch: Batch, made: CheckpointKey | None = None) -> None:
        self._batches.append((batch, made))
        self._size += sum(len(operation[-1]) for operation in batch.operations)
        if self._size >= _BYTES or len(self._batches) >= _OPERATIONS:
            self.finish()

    def finish(self) -> None:
        batches, self._batches, self._size = self._batches, [], 0
        if not batches:
            return
        ticket = self._tally.begin()
        made: list[CheckpointKey] = []
        try:
            outcomes = self._store.submit([batch for batch, _ in batches]).result()
            for (_, place), outcome in zip(batches, outcomes, strict=True):
                if place is not None and isinstance(outcome, Committed):
                    made.append(place)
        finally:
            self._tally.end(ticket, made)
