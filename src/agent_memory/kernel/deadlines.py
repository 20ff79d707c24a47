"""How long a caller waits for an answer of the store.

An interface says with `expect_answer` that somebody waits, and until when. Jobs say nothing: they
wait as long as the store tries. A `Watchdog` ends what is not done in time.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

ANSWER_SECONDS = 2.0  # the longest that a caller waits for the store
_SHARE = 0.8  # of the time that the caller gives: the answer needs the rest
# What else the same caller wants, soon after the store has not answered: they do not wait twice.
_SPENT_SECONDS = 0.1
_SOON = 2.0
_TICK = 0.05


@dataclass(slots=True)
class _Patience:
    until: float | None  # the moment that the caller gave, or None
    spent: float = -math.inf  # when the store last did not answer in time


_PATIENCE: ContextVar[_Patience | None] = ContextVar("patience", default=None)


class Limit:
    """The moment until which a caller waits for one answer."""

    __slots__ = ("_patience", "until")

    def __init__(self, until: float, patience: _Patience) -> None:
        self.until = until
        self._patience = patience

    def spend(self) -> None:
        """Note that the store did not answer in time: the caller does not wait once more."""
        self._patience.spent = time.monotonic()


def expect_answer(seconds: float | None = None) -> None:
    """Say that somebody waits for what the current task does: so many seconds, if they said so."""
    until = None if seconds is None else time.monotonic() + seconds * _SHARE
    _PATIENCE.set(_Patience(until))


def find_limit() -> Limit | None:
    """Return until when the caller waits for the store; None if nobody waits."""
    patience = _PATIENCE.get()
    if patience is None:
        return None
    now = time.monotonic()
    until = now + (_SPENT_SECONDS if now - patience.spent < _SOON else ANSWER_SECONDS)
    return Limit(until if patience.until is None else min(until, patience.until), patience)


@dataclass(slots=True)
class _Watched:
    limit: Limit
    is_done: Callable[[], bool]
    end: Callable[[], None]


class Watchdog:
    """Ends what takes longer than its caller waits. Its thread sleeps while nothing is watched."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._watched: deque[_Watched] = deque()
        self._has_work = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, limit: Limit, is_done: Callable[[], bool], end: Callable[[], None]) -> None:
        """Call `end` on the thread of the watchdog if something is not done in time."""
        self._watched.append(_Watched(limit, is_done, end))
        if self._thread is None:
            self._start()
        if not self._has_work.is_set():
            self._has_work.set()

    def close(self) -> None:
        self._closed.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._has_work.wait()
            if self._closed.wait(_TICK):
                return
            now = time.monotonic()
            for _ in range(len(self._watched)):
                each = self._watched.popleft()
                if each.is_done():
                    continue
                if each.limit.until > now:
                    self._watched.append(each)
                    continue
                each.limit.spend()
                each.end()
            if not self._watched:
                self._has_work.clear()
                if self._watched:  # something came in between
                    self._has_work.set()
