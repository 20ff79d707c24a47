"""The number of graph checkpoints: counted on first use, then kept up to date."""

import threading
from collections.abc import Iterable
from itertools import count

from agent_memory.features.checkpoints.adapters import graph_layout as layout
from agent_memory.features.checkpoints.model.graphs import CheckpointKey
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import keys

_PAGE = 10_000


class GraphTally:
    """Counter that is notified before and after every new checkpoint, and of removals.

    Checkpoints are added while they are counted, page by page in the order of keys. One below the
    counted range is added, one in the page being read belongs to it, seen or not, and one above
    will be found.
    """

    def __init__(self, store: OrderedStore, *, page: int = _PAGE) -> None:
        self._store = store
        self._page = page
        # Held during removals: what a removal has read exists until it is removed.
        self.removing = threading.Lock()
        self._changed = threading.Condition()
        self._tickets = count()
        self._making: set[int] = set()
        self._count = self._restarts = 0
        self._counted = layout.prefix(layout.ID)  # all below this key are counted
        self._end = keys.end_of(self._counted)
        self._made: set[bytes] | None = None  # while a page is read

    def begin(self) -> int:
        """Register a write before it starts; pass the ticket to `end`, whatever the outcome."""
        with self._changed:
            ticket = next(self._tickets)
            self._making.add(ticket)
            return ticket

    def end(self, ticket: int, made: Iterable[CheckpointKey] = ()) -> None:
        """Register the end of a write, once durable. A replaced checkpoint is not `made`."""
        places = [layout.id_key(place) for place in made]
        with self._changed:
            for at in places:
                if at < self._counted:
                    self._count += 1
                elif self._made is not None:
                    self._made.add(at)
            self._making.discard(ticket)
            self._changed.notify_all()

    def subtract(self, places: Iterable[CheckpointKey]) -> None:
        """Subtract removed checkpoints. The caller holds `removing`."""
        removed = [layout.id_key(place) for place in places]
        with self._changed:
            self._count -= sum(at < self._counted for at in removed)

    def total(self) -> int:
        with self._changed:
            if self._counted >= self._end:
                return self._count  # without waiting for a long removal
        with self.removing:
            while self._counted < self._end:
                self._count_page()
            with self._changed:
                return self._count

    def note_foreign_changes(self) -> None:
        """Count again: others may have added and removed checkpoints."""
        with self._changed:
            self._count, self._counted = 0, layout.prefix(layout.ID)
            self._restarts += 1

    def _count_page(self) -> None:
        with self._changed:
            self._made, restarts = set(), self._restarts
        rows = self._store.scan(layout.FAMILY, self._counted, self._end, limit=self._page)
        with self._changed:
            if self._restarts != restarts:
                return  # this page may be from before the change of another process
            # Any write that this page could show has begun before this point.
            begun = frozenset(self._making)
            self._changed.wait_for(lambda: not begun & self._making)
            end = keys.after(rows[-1][0]) if len(rows) == self._page else self._end
            page_keys = {at for at, _ in rows} | {at for at in self._made if at < end}
            self._count += len(page_keys)
            self._counted, self._made = end, None
