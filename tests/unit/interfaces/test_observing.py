"""What was asked and how it ended, counted."""

import threading

import pytest

from agent_memory.interfaces import observing
from agent_memory.interfaces.observing import BUCKETS, ObservedCall, Observer
from agent_memory.kernel.errors import NotFound
from agent_memory.kernel.tracing import Interface


def test_operations_are_told_apart_and_timed() -> None:
    observer = Observer()
    observer.record(Interface.CLI, "memory recall", "ok", 0.003)
    observer.record(Interface.CLI, "memory recall", "ok", 20.0)
    observer.record(Interface.CLI, "memory recall", "exit_2", 0.001)
    found = observer.snapshot()
    good = found[ObservedCall(Interface.CLI, "memory recall", "ok")]
    assert good.count == 2
    assert good.seconds == pytest.approx(20.003)
    assert sum(good.buckets) == 2
    assert good.buckets[BUCKETS.index(0.005)] == 1
    assert good.buckets[-1] == 1
    assert found[ObservedCall(Interface.CLI, "memory recall", "exit_2")].buckets[0] == 1


def test_what_is_raised_is_how_it_ended() -> None:
    observer = Observer()
    with observer.observe(Interface.GRPC, "GetNode"):
        pass
    with pytest.raises(NotFound), observer.observe(Interface.GRPC, "GetNode"):
        raise NotFound
    with pytest.raises(ZeroDivisionError), observer.observe(Interface.GRPC, "GetNode"):
        raise ZeroDivisionError
    assert {operation.outcome for operation in observer.snapshot()} == {"ok", "NotFound", "failed"}


def test_callers_cannot_make_up_any_number_of_operations() -> None:
    observer = Observer()
    for number in range(observing.MOST + 50):
        observer.record(Interface.HTTP, f"GET /{number}", "404", 0.0)
    found = observer.snapshot()
    assert len(found) == observing.MOST + 1
    assert found[ObservedCall(Interface.HTTP, "other", "404")].count == 50


def test_nothing_is_lost_where_many_count_at_once() -> None:
    observer = Observer()

    def count() -> None:
        for _ in range(500):
            observer.record(Interface.HOOK, "stop", "ok", 0.01)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (tally,) = observer.snapshot().values()
    assert tally.count == 4_000
