"""Futures with a derived result, and values that are created on first use."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def map_future(source: "Future[A]", derive: Callable[[A], B]) -> "Future[B]":
    """Return a future of `derive(result)`.

    `derive` runs on the thread that completes `source`, so keep it small.
    """
    derived: Future[B] = Future()
    # Running from the start: a waiter that gives up must not cancel a result on its way.
    derived.set_running_or_notify_cancel()

    def settle(done: "Future[A]") -> None:
        try:
            derived.set_result(derive(done.result()))
        except BaseException as exc:
            derived.set_exception(exc)

    source.add_done_callback(settle)
    return derived


def once(make: Callable[[], A]) -> Callable[[], A]:
    """Return a function that calls `make` once and then returns the same value.

    Concurrent callers wait for the first call. If `make` raises, the next call tries again.
    """
    values: list[A] = []
    lock = threading.Lock()

    def get() -> A:
        with lock:
            if not values:
                values.append(make())
            return values[0]

    return get
