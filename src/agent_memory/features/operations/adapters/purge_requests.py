"""Requests to purge, by a mark in the database that daemons share."""

import os

from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.change_marks import PURGE, ChangeMarks, put_mark

_DONE = b"purged"


class StoredPurges:
    """The mark of the last purge that this daemon knows of, and the last that it has done, in files
    of its own."""

    def __init__(self, marks: ChangeMarks, store: OrderedStore, local: OrderedStore) -> None:
        self._marks = marks
        self._store = store
        self._local = local
        self._due: bytes | None = None

    def announce(self) -> None:
        """Ask the other daemons to purge. This one has done it."""
        self._due = os.urandom(16)
        self._store.submit([Batch((put_mark(PURGE, self._due),))]).result()
        self._marks.set_own([PURGE], self._due)
        self.mark_done()

    def is_due(self) -> bool:
        self._due = self._marks.get(PURGE)
        return self._due is not None and self._local.get(families.META, _DONE) != self._due

    def mark_done(self) -> None:
        if self._due is not None:
            batch = Batch((Put(families.META, _DONE, self._due),))
            self._local.submit([batch]).result()
