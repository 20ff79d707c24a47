"""Marks of families that processes keep in memory: which of them others have changed.

A group that writes to one of these families also writes its mark, a value of its own. A process
that reads another mark than the last one that it knows of drops what it keeps of that family. A
mark that changes more often than its family costs a read, never a stale answer.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.database import Head, TenantReader
from agent_memory.platform.store.plans import Place, Write

MARKED = (
    families.ACCESS_KEYS,
    families.FACTS,
    families.KNOWLEDGE,
    families.GRAPH_CHECKPOINTS,
    families.LESSONS,
)
PURGE = "purge"  # no family: forgotten records are to be removed from the files of all indexes
_NAMES = (*MARKED, PURGE)
_PREFIX = b"changed:"

Listener = Callable[[], None]


class ChangeMarks:
    """The marks of a tenant, as this process knows them."""

    def __init__(self, database: TenantReader) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, list[Listener]] = {name: [] for name in _NAMES}
        self._seen, _ = read_marks(database)

    def listen(self, name: str, listener: Listener) -> None:
        """Call a function when others have changed a family. It must be quick."""
        self._listeners[name].append(listener)

    def get(self, name: str) -> bytes | None:
        """Return the last known mark of a family."""
        with self._lock:
            return self._seen[name]

    def compare(self, marks: Mapping[str, bytes | None]) -> None:
        """Compare marks that were read with the known ones, and call the listeners of others."""
        with self._lock:
            changed = [name for name, mark in marks.items() if self._seen[name] != mark]
            self._seen.update(marks)
        for name in changed:
            for listener in self._listeners[name]:
                listener()

    def set_own(self, names: Iterable[str], mark: bytes) -> None:
        """Note the mark that this process has written."""
        with self._lock:
            self._seen.update(dict.fromkeys(names, mark))


def list_marked(operations: Iterable[Write]) -> list[str]:
    """Return the marked families that operations write to."""
    written = {operation.family for operation in operations}
    return [name for name in MARKED if name in written]


def get_place(name: str) -> Place:
    return families.LEASES, _PREFIX + name.encode()


def put_mark(name: str, mark: bytes) -> Put:
    return Put(*get_place(name), mark)


def read_marks(database: TenantReader) -> tuple[dict[str, bytes | None], Head]:
    """Return all marks and the head row, by one question."""
    head, marks = database.look(families.LEASES, [get_place(name)[1] for name in _NAMES])
    return dict(zip(_NAMES, marks, strict=True)), head
