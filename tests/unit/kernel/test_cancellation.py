"""Cancel tokens: which callbacks are called, and when."""

import threading

import pytest

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled
from tests.processes import LONG


def test_it_is_set_once_and_for_all() -> None:
    halt = CancelToken()
    halt.check()
    assert not halt.is_set()
    halt.set()
    halt.set()
    assert halt.is_set()
    assert halt.wait()
    with pytest.raises(Cancelled):
        halt.check()


def test_each_callback_is_called_once() -> None:
    halt, calls = CancelToken(), list[str]()
    with halt.on_cancel(lambda: calls.append("left")):
        pass
    with halt.on_cancel(lambda: calls.append("a")), halt.on_cancel(lambda: calls.append("b")):
        halt.set()
        halt.set()
    assert calls == ["a", "b"]
    with halt.on_cancel(lambda: calls.append("at once")):
        assert calls[-1] == "at once"


def test_no_callback_is_called_after_its_block() -> None:
    """The callback's resource may be closed by then, and its descriptor may be another file's."""
    halt = CancelToken()
    begun, go_on, left = threading.Event(), threading.Event(), threading.Event()
    done: list[bool] = []

    def call() -> None:
        begun.set()
        go_on.wait(LONG)
        done.append(left.is_set())

    def work() -> None:
        with halt.on_cancel(call):
            begun.wait(LONG)
        left.set()

    worker, setter = threading.Thread(target=work), threading.Thread(target=halt.set)
    worker.start()
    while not halt._calls:  # noqa: SLF001 - until it waits
        threading.Event().wait(0.001)
    setter.start()
    assert begun.wait(LONG)
    assert not left.wait(0.05), "it has left while it was called"
    go_on.set()
    worker.join(LONG)
    setter.join(LONG)
    assert done == [False]
    assert left.is_set()
