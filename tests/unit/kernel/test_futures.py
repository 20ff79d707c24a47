"""Futures with a derived result."""

from concurrent.futures import Future

import pytest

from agent_memory.kernel import futures


def test_the_derived_result_is_there_once_the_source_is_settled() -> None:
    source: Future[int] = Future()
    derived = futures.map_future(source, lambda n: n + 1)
    assert not derived.done()
    source.set_result(1)
    assert derived.result(0) == 2


def test_a_failed_source_fails_the_derived_future() -> None:
    source: Future[int] = Future()
    derived = futures.map_future(source, lambda n: n + 1)
    source.set_exception(LookupError("gone"))
    with pytest.raises(LookupError, match="gone"):
        derived.result(0)


def test_a_failed_derivation_fails_the_derived_future() -> None:
    source: Future[int] = Future()
    derived = futures.map_future(source, lambda n: 1 // n)
    source.set_result(0)
    with pytest.raises(ZeroDivisionError):
        derived.result(0)


def test_a_waiter_that_gives_up_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    source: Future[int] = Future()
    derived = futures.map_future(source, lambda n: n + 1)
    derived.cancel()
    source.set_result(1)
    assert caplog.messages == []
