"""What is to come: futures that carry a derived result, and what is made when it is needed."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def map_future(source: "Future[A]", derive: Callable[[A], B]) -> "Future[B]":
    """A future of `derive(result)`. It runs where the source is settled, so keep it small."""
    derived: Future[B] = Future()
    # Running from the start: a waiter that gives up must not cancel what is being settled.
    derived.set_running_or_notify_cancel()

    def settle(done: "Future[A]") -> None:
        try:
            derived.set_result(derive(done.result()))
        except BaseException as exc:
            derived.set_exception(exc)

    source.add_done_callback(settle)
    return derived


def once(make: Callable[[], A]) -> Callable[[], A]:
    """Made with the first call, which others wait for. One that failed is tried again."""
    made: list[A] = []
    lock = threading.Lock()

    def get() -> A:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get
