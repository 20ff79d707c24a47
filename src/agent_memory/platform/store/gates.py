"""Gates: let readers pass, except while something is changed that none of them may see."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReaderGate:
    """A lock that blocks readers while a group is written but not yet durable.

    Readers pass freely while it is open. The writer closes it only after all readers that waited
    the last time have passed, so that neither side can starve the other.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._inside = 0
        self._held_back = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                self._held_back += 1
                self._changed.wait_for(lambda: not self._closed)
                self._held_back -= 1
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if not self._inside:
                    self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._held_back)
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
