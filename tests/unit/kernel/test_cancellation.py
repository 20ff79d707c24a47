"""Cancel tokens: which callbacks are called, and when."""

import threading

import pytest

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled
from tests.processes import LONG


def test_it_is_set_once_and_for_all() -> None:
    cancel = CancelToken()
    cancel.check()
    assert not cancel.is_set()
    cancel.set()
    cancel.set()
    assert cancel.is_set()
    assert cancel.wait()
    with pytest.raises(Cancelled):
        cancel.check()


def test_each_callback_is_called_once() -> None:
    cancel, calls = CancelToken(), list[str]()
    with cancel.on_cancel(lambda: calls.append("left")):
        pass
    with cancel.on_cancel(lambda: calls.append("a")), cancel.on_cancel(lambda: calls.append("b")):
        cancel.set()
        cancel.set()
    assert calls == ["a", "b"]
    with cancel.on_cancel(lambda: calls.append("at once")):
        assert calls[-1] == "at once"


def test_no_callback_is_called_after_its_block() -> None:
    """The callback's resource may be closed by then, and its descriptor may be another file's."""
    cancel = CancelToken()
    begun, go_on, left = threading.Event(), threading.Event(), threading.Event()
    done: list[bool] = []

    def call() -> None:
        begun.set()
        go_on.wait(LONG)
        done.append(left.is_set())

    def work() -> None:
        with cancel.on_cancel(call):
            begun.wait(LONG)
        left.set()

    worker, setter = threading.Thread(target=work), threading.Thread(target=cancel.set)
    worker.start()
    while not cancel._calls:  # noqa: SLF001 - until it waits
        threading.Event().wait(0.001)
    setter.start()
    assert begun.wait(LONG)
    assert not left.wait(0.05), "it has left while it was called"
    go_on.set()
    worker.join(LONG)
    setter.join(LONG)
    assert done == [False]
    assert left.is_set()
