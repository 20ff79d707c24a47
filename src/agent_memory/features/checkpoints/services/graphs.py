"""Graph checkpoints: store, find, copy and remove them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, NewType, assert_never

from agent_memory.features.checkpoints.model import graphs
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    CheckpointSnapshot,
    GraphCheckpoint,
    GraphRunId,
    PendingWrite,
    Strategy,
    ThreadId,
    ThreadInfo,
    WriteKey,
    WritesPage,
)
from agent_memory.features.checkpoints.ports import GraphCheckpoints, GraphThreads
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput

CleanCheckpoint = NewType("CleanCheckpoint", GraphCheckpoint)

# An answer has one checkpoint, then others and writes while they fit a message of 16 MiB.
ANSWER_BYTES = 16 * graphs.MIB - (256 << 10)
PAGE_BYTES = 2 * graphs.MIB  # of a list: callers seldom need more at once
_READ = 64


@dataclass(frozen=True, slots=True)
class Graphs:
    checkpoints: GraphCheckpoints
    threads: GraphThreads
    secrets: SecretsFilter
    read_at_most: int = 2_000  # checkpoints read for one page of a list, matching or not

    def clean(self, checkpoint: GraphCheckpoint) -> CleanCheckpoint:
        """Remove secrets from the ids and metadata of a checkpoint. Its state belongs to the
        program that serialized it and stays as it is."""
        parent = checkpoint.parent_checkpoint_id
        metadata = checkpoint.metadata
        if not self.secrets.is_clean([metadata]):
            metadata = graphs.replace_texts(metadata, self._clean_text, self._clean_id)
        return CleanCheckpoint(
            replace(
                checkpoint,
                place=self._clean_place(checkpoint.place),
                parent_checkpoint_id=None
                if parent is None
                else CheckpointId(self._clean_id(parent)),
                metadata=metadata,
            )
        )

    def put(self, checkpoint: CleanCheckpoint) -> "Future[None]":
        """Store a checkpoint. The future resolves once it is durable; this never blocks."""
        return self.checkpoints.put(checkpoint)

    def put_writes(self, place: CheckpointKey, writes: Sequence[PendingWrite]) -> "Future[None]":
        """Store writes. The future resolves once they are durable; this never blocks."""
        graphs.check_place(place)
        if len(writes) > graphs.MAX_WRITES:
            raise InvalidInput(
                f"{len(writes)} writes in one call; the limit is {graphs.MAX_WRITES}: split them"
            )
        clean = [
            replace(
                write,
                task_id=self._clean_id(write.task_id),
                channel=self._clean_name(write.channel, graphs.MAX_NS_CHARS),
                task_path=self._clean_name(write.task_path, graphs.MAX_PATH_CHARS),
            )
            for write in writes
        ]
        return self.checkpoints.put_writes(self._clean_place(place), clean)

    def has_write(self, place: CheckpointKey, write: PendingWrite) -> bool:
        task_id = self._clean_id(write.task_id)
        page = self.checkpoints.list_writes(
            self._clean_place(place),
            after=WriteKey(task_id, write.index - 1),
            max_bytes=0,
            at_least_one=True,
        )
        return any((w.task_id, w.index) == (task_id, write.index) for w in page.writes)

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None = None
    ) -> CheckpointSnapshot | None:
        """Return this checkpoint, or the latest of its thread and namespace."""
        _check_scope(CheckpointScope(thread_id, checkpoint_ns))
        if checkpoint_id is not None:
            graphs.check_id("checkpoint_id", checkpoint_id)
            checkpoint_id = CheckpointId(self._clean_id(checkpoint_id))
        checkpoint = self.checkpoints.get(
            ThreadId(self._clean_id(thread_id)),
            self._clean_name(checkpoint_ns, graphs.MAX_NS_CHARS),
            checkpoint_id,
        )
        if checkpoint is None:
            return None
        room = ANSWER_BYTES - len(checkpoint.blob) - len(checkpoint.metadata.encode())
        pending = self._pending(checkpoint.place, room)
        return CheckpointSnapshot(checkpoint=checkpoint, pending=pending)

    def writes(self, place: CheckpointKey, after: WriteKey | None) -> WritesPage:
        """Return the writes that did not fit an answer."""
        graphs.check_place(place)
        if after is not None:
            after = WriteKey(self._clean_id(after.task_id), after.number)
        return self.checkpoints.list_writes(
            self._clean_place(place),
            after=after,
            max_bytes=graphs.MAX_BLOB_BYTES,
            at_least_one=True,
        )

    def list(
        self,
        scope: CheckpointScope,
        *,
        wanted: Mapping[str, Any],
        only: CheckpointId | None,
        before: CheckpointId | None,
        after: CheckpointKey | None,
        limit: int,
    ) -> tuple[Sequence[CheckpointSnapshot], CheckpointKey | None]:
        """List newest first, and where to continue if there may be more: a page ends early if much
        was read, matching or not."""
        _check_scope(scope)
        _check_limit(limit)
        for checkpoint_id in (only, before):
            if checkpoint_id is not None:
                graphs.check_id("checkpoint_id", checkpoint_id)
        scope = self._clean_scope(scope)
        only, before = (
            None if value is None else CheckpointId(self._clean_id(value))
            for value in (only, before)
        )
        after = None if after is None else self._clean_place(after)
        wanted = {name: self._clean_filter(name, value) for name, value in wanted.items()}
        if only is not None:
            behind = CheckpointId(only + "\1")  # sorts after it, whatever follows in a key
            before = behind if before is None else min(before, behind)
        snapshots: list[CheckpointSnapshot] = []
        size = 0
        for read, info in enumerate(self._infos(scope, before, after), 1):
            if only is not None and info.place.checkpoint_id != only:
                break
            if graphs.matches(info, wanted):
                added = info.blob_size + len(info.metadata.encode())
                if snapshots and size + added > PAGE_BYTES:
                    return snapshots, after
                room = ANSWER_BYTES if not snapshots else PAGE_BYTES
                if (snapshot := self._load_snapshot(info.place, room - size - added)) is not None:
                    snapshots.append(snapshot)
                    size += snapshot.size
            after = info.place
            if len(snapshots) == limit or read == self.read_at_most:
                return snapshots, after
        return snapshots, None

    def list_infos(
        self, thread_id: ThreadId | None, *, limit: int, offset: int
    ) -> tuple[Sequence[CheckpointInfo], int]:
        """List newest first, without states, and the total number."""
        scope = self._clean_scope(CheckpointScope(thread_id))
        thread_id = scope.thread_id
        _check_limit(limit)
        if offset < 0:
            raise InvalidInput(f"offset is {offset}; it must not be negative")
        total = self.checkpoints.count(thread_id)
        if offset >= total:
            return [], total
        page = self.checkpoints.list_infos(
            scope, after=None, before=None, limit=limit, offset=offset
        )
        return page, total

    def list_threads(self, *, limit: int, offset: int) -> tuple[Sequence[ThreadInfo], int]:
        """List the threads, the one with the latest checkpoint first, and their number."""
        _check_limit(limit)
        if offset < 0:
            raise InvalidInput(f"offset is {offset}; it must not be negative")
        counts = self.threads.count_by_thread()
        ordered = sorted(
            counts.values(), key=lambda each: (each[1].checkpoint_id, each[1]), reverse=True
        )
        threads = []
        for count, place in ordered[offset : offset + limit]:
            scope = CheckpointScope(place.thread_id)
            infos = self.checkpoints.list_infos(scope, after=None, before=None, limit=1)
            threads += [
                ThreadInfo(thread_id=place.thread_id, checkpoints=count, latest=info)
                for info in infos  # none if it was removed meanwhile
            ]
        return threads, len(ordered)

    def delete_threads(self, thread_ids: Sequence[str]) -> None:
        graphs.check_ids("thread_ids", thread_ids)
        for thread_id in thread_ids:
            self.threads.remove_thread(ThreadId(self._clean_id(thread_id)))

    def delete_checkpoints(self, checkpoint_ids: Sequence[str]) -> None:
        """Delete these in all threads: a copy of a thread has the same ids."""
        graphs.check_ids("checkpoint_ids", checkpoint_ids)
        for checkpoint_id in checkpoint_ids:
            self.threads.remove(
                self.threads.find_by_id(CheckpointId(self._clean_id(checkpoint_id)))
            )

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        graphs.check_ids("run_ids", run_ids)
        for run_id in run_ids:
            self.threads.remove(self.threads.find_by_run(GraphRunId(self._clean_id(run_id))))

    def copy_thread(self, source: ThreadId, target: ThreadId) -> None:
        """Copy a thread. What the target already has stays."""
        graphs.check_id("source_thread_id", source)
        graphs.check_id("target_thread_id", target)
        self.threads.copy(ThreadId(self._clean_id(source)), ThreadId(self._clean_id(target)))

    def prune(self, thread_ids: Sequence[str], strategy: Strategy) -> None:
        graphs.check_ids("thread_ids", thread_ids)
        match strategy:
            case Strategy.DELETE:
                self.delete_threads(thread_ids)
            case Strategy.KEEP_LATEST:
                for thread_id in thread_ids:
                    history = self._infos(
                        CheckpointScope(ThreadId(self._clean_id(thread_id))), None, None
                    )
                    self.threads.remove(graphs.find_superfluous(history))
            case _:
                assert_never(strategy)

    def _clean_id(self, value: str) -> str:
        return self._clean_name(value, graphs.MAX_ID_CHARS)

    def _clean_name(self, value: str, limit: int) -> str:
        return self.secrets.clean_name(value, limit=limit, where="checkpoint") if value else value

    def _clean_place(self, place: CheckpointKey) -> CheckpointKey:
        return CheckpointKey(
            ThreadId(self._clean_id(place.thread_id)),
            self._clean_name(place.checkpoint_ns, graphs.MAX_NS_CHARS),
            CheckpointId(self._clean_id(place.checkpoint_id)),
        )

    def _clean_scope(self, scope: CheckpointScope) -> CheckpointScope:
        _check_scope(scope)
        thread, space = scope
        return CheckpointScope(
            None if thread is None else ThreadId(self._clean_id(thread)),
            None if space is None else self._clean_name(space, graphs.MAX_NS_CHARS),
        )

    def _clean_filter(self, name: str, value: Any) -> Any:
        """Clean a filter value as the stored metadata was cleaned."""
        cleaned = graphs.replace_texts(json.dumps({name: value}), self._clean_text, self._clean_id)
        return next(iter(json.loads(cleaned).values()))

    def _clean_text(self, text: str) -> str:
        """Clean text of the metadata, which never makes a checkpoint fail."""
        try:
            return self.secrets.clean(text, where="checkpoint")
        except ContentBlocked:
            return WITHHELD

    def _infos(
        self, scope: CheckpointScope, before: CheckpointId | None, after: CheckpointKey | None
    ) -> Iterator[CheckpointInfo]:
        while page := self.checkpoints.list_infos(scope, after=after, before=before, limit=_READ):
            yield from page
            after = page[-1].place

    def _load_snapshot(self, place: CheckpointKey, room: int) -> CheckpointSnapshot | None:
        """Return None if it was removed meanwhile."""
        checkpoint = self.checkpoints.get(*place)
        if checkpoint is None:
            return None
        return CheckpointSnapshot(checkpoint=checkpoint, pending=self._pending(place, room))

    def _pending(self, place: CheckpointKey, room: int) -> WritesPage:
        return self.checkpoints.list_writes(
            place, after=None, max_bytes=max(0, room), at_least_one=False
        )


def _check_scope(scope: CheckpointScope) -> None:
    if scope.thread_id is not None:
        graphs.check_id("thread_id", scope.thread_id)
    if scope.checkpoint_ns is not None:
        if scope.thread_id is None:
            raise InvalidInput("thread_id is required with checkpoint_ns")
        graphs.check_namespace(scope.checkpoint_ns)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= graphs.MAX_PAGE:
        raise InvalidInput(f"limit is {limit}; it must be from 1 to {graphs.MAX_PAGE}")
