"""Requests to purge, by a mark in the database that daemons share."""

import os
from collections.abc import Callable

from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Put
from agent_memory.platform.store.change_marks import PURGE, ChangeMarks, put_mark
from agent_memory.platform.store.rows import write

_DONE = b"purged"


class StoredPurges:
    """The mark of the last purge that this daemon knows of, and the last that it has done, in files
    of its own."""

    def __init__(self, marks: ChangeMarks, store: OrderedStore, local: OrderedStore) -> None:
        self._marks = marks
        self._store = store
        self._local = local

    def announce(self) -> None:
        """Ask the other daemons to purge. This one has done it."""
        mark = os.urandom(16)
        write(self._store, put_mark(PURGE, mark))
        self._marks.set_own([PURGE], mark)
        self._note_done(mark)

    def run_due(self, purge: Callable[[], None]) -> None:
        """Purge if another daemon has asked for it, and note durably that it is done."""
        mark = self._marks.get(PURGE)
        if mark is not None and self._local.get(families.META, _DONE) != mark:
            purge()
            self._note_done(mark)

    def _note_done(self, mark: bytes) -> None:
        write(self._local, Put(families.META, _DONE, mark))
