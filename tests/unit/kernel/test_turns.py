"""A lock that is given in the order in which it is asked for."""

import threading

import pytest

from agent_memory.kernel.turns import TurnLock
from tests.command_runner import wait_until

THREADS = 5


def test_it_is_given_in_the_order_of_asking_even_to_others_first() -> None:
    lock, order = TurnLock(), list[str]()

    def take(name: str) -> None:
        with lock:
            order.append(name)

    threads = []
    with lock:
        for number in range(THREADS):
            threads.append(threading.Thread(target=take, args=(str(number),)))
            threads[-1].start()
            wait_until(lambda: lock.waiting == len(threads), "it has asked")
    take("first")  # asks again at once, and is last
    for thread in threads:
        thread.join()
    assert order == [*map(str, range(THREADS)), "first"]
    assert lock.waiting == 0


def test_only_one_thread_has_it() -> None:
    lock, counts = TurnLock(), [0]

    def count() -> None:
        for _ in range(500):
            with lock:
                before = counts[0]
                counts[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [500 * THREADS]


def test_an_error_ends_the_turn() -> None:
    lock = TurnLock()
    with pytest.raises(ValueError, match="wrong"), lock:
        raise ValueError("wrong")
    with lock:
        pass
