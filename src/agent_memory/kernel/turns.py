"""A lock that threads get in the order in which they ask for it."""

import threading


class TurnLock:
    """A fair lock. With a plain lock, a thread that releases it and asks again at once, as a long
    background job does between its steps, can keep all others waiting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._ended = 0
        self._given_up: set[int] = set()

    @property
    def waiting(self) -> int:
        """The number of threads that wait for their turn."""
        with self._changed:
            return max(0, self._asked - self._ended - 1)

    def __enter__(self) -> None:
        with self._changed:
            turn = self._asked
            self._asked += 1
            try:
                self._changed.wait_for(lambda: self._ended == turn)
            except BaseException:  # a signal: the others must not wait for this turn
                self._given_up.add(turn)
                self._skip()
                raise

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended += 1
            self._skip()

    def _skip(self) -> None:
        """Give the turn to the next thread that still waits for it."""
        while self._ended in self._given_up:
            self._given_up.remove(self._ended)
            self._ended += 1
        self._changed.notify_all()
