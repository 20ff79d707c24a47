"""A lock that threads get in the order in which they ask for it."""

import threading


class TurnLock:
    """A fair lock. With a plain lock, a thread that releases it and asks again at once, as a long
    background job does between its steps, can keep all others waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._ended = 0

    @property
    def waiting(self) -> int:
        """The number of threads that wait for their turn."""
        with self._changed:
            return max(0, self._asked - self._ended - 1)

    def __enter__(self) -> None:
        with self._changed:
            turn = self._asked
            self._asked += 1
            self._changed.wait_for(lambda: self._ended == turn)

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended += 1
            self._changed.notify_all()
