"""Graph checkpoints of a team server: a thread belongs to the person who wrote it.

Its stored id ends in their name, which they neither send nor see. So nobody else can name it, and
two people may use one id. The operator, who is no person, sees the stored ids of all. Threads from
before there were owners have no name at the end: they are the operator's, who copies them to
`ID@NAME` to hand them over.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from agent_memory.features.checkpoints.model.graphs import (
    MAX_ID_CHARS,
    CheckpointId,
    CheckpointInfo,
    CheckpointKey,
    CheckpointScope,
    GraphCheckpoint,
    GraphRunId,
    PendingWrite,
    ThreadId,
    WriteKey,
    WritesPage,
)
from agent_memory.features.checkpoints.ports import GraphCheckpoints, GraphThreads
from agent_memory.kernel import access, owners
from agent_memory.kernel.errors import InvalidInput


class GuardedGraphs:
    """A GraphCheckpoints."""

    def __init__(self, checkpoints: GraphCheckpoints, threads: GraphThreads) -> None:
        self._checkpoints = checkpoints
        self._threads = threads

    def put(self, checkpoint: GraphCheckpoint, /) -> "Future[None]":
        return self._checkpoints.put(replace(checkpoint, place=_to_stored_place(checkpoint.place)))

    def put_writes(self, place: CheckpointKey, writes: Sequence[PendingWrite], /) -> "Future[None]":
        return self._checkpoints.put_writes(_to_stored_place(place), writes)

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None, /
    ) -> GraphCheckpoint | None:
        found = self._checkpoints.get(_to_stored(thread_id), checkpoint_ns, checkpoint_id)
        return None if found is None else replace(found, place=_to_shown_place(found.place))

    def list_writes(
        self, place: CheckpointKey, /, *, after: WriteKey | None, max_bytes: int, at_least_one: bool
    ) -> WritesPage:
        return self._checkpoints.list_writes(
            _to_stored_place(place), after=after, max_bytes=max_bytes, at_least_one=at_least_one
        )

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
        start = None if after is None else _to_stored_place(after)
        if scope.thread_id is not None:
            scope = scope._replace(thread_id=_to_stored(scope.thread_id))
            found = self._checkpoints.list_infos(
                scope, after=start, before=before, limit=limit, offset=offset
            )
        else:
            found = access.take_visible(
                lambda most: self._checkpoints.list_infos(
                    scope, after=start, before=before, limit=most
                ),
                lambda info: _is_own(info.place),
                offset + limit,
            )[offset:]
        return [replace(info, place=_to_shown_place(info.place)) for info in found]

    def count(self, thread_id: ThreadId | None, /) -> int:
        if thread_id is not None:
            return self._checkpoints.count(_to_stored(thread_id))
        if not _get_suffix():
            return self._checkpoints.count(None)
        return sum(
            count for count, place in self._threads.count_by_thread().values() if _is_own(place)
        )


class GuardedThreads:
    """A GraphThreads."""

    def __init__(self, threads: GraphThreads) -> None:
        self._threads = threads

    def count_by_thread(self) -> dict[ThreadId, tuple[int, CheckpointKey]]:
        shown = (
            (count, _to_shown_place(place))
            for count, place in self._threads.count_by_thread().values()
            if _is_own(place)
        )
        return {place.thread_id: (count, place) for count, place in shown}

    def remove_thread(self, thread_id: ThreadId, /) -> None:
        self._threads.remove_thread(_to_stored(thread_id))

    def remove(self, places: Sequence[CheckpointKey], /) -> None:
        self._threads.remove([_to_stored_place(place) for place in places])

    def find_by_id(self, checkpoint_id: CheckpointId, /) -> list[CheckpointKey]:
        return _show_own(self._threads.find_by_id(checkpoint_id))

    def find_by_run(self, run_id: GraphRunId, /) -> list[CheckpointKey]:
        return _show_own(self._threads.find_by_run(run_id))

    def copy(self, source: ThreadId, target: ThreadId, /) -> None:
        self._threads.copy(_to_stored(source), _to_stored(target))


def _get_suffix() -> str:
    """Return what the ids of the caller's threads end in; nothing for the operator."""
    caller = access.get_caller()
    if caller is None or not caller.person:
        return ""
    return f"{owners.MARK}{owners.to_owner(caller.person)}"


def _to_stored(thread_id: ThreadId) -> ThreadId:
    suffix = _get_suffix()
    most = MAX_ID_CHARS - len(suffix)
    if len(thread_id) > most:
        raise InvalidInput(
            f"thread_id has {len(thread_id)} characters; on a team's server, yours may have {most}"
        )
    return ThreadId(thread_id + suffix)


def _to_stored_place(place: CheckpointKey) -> CheckpointKey:
    return place._replace(thread_id=_to_stored(place.thread_id))


def _to_shown_place(place: CheckpointKey) -> CheckpointKey:
    return place._replace(thread_id=ThreadId(place.thread_id.removesuffix(_get_suffix())))


def _is_own(place: CheckpointKey) -> bool:
    return place.thread_id.endswith(_get_suffix())


def _show_own(places: Sequence[CheckpointKey]) -> list[CheckpointKey]:
    return [_to_shown_place(place) for place in places if _is_own(place)]
