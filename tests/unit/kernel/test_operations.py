"""Calls of operations."""

from concurrent.futures import Future, ThreadPoolExecutor

from agent_memory.kernel.callers import Caller
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.operations import OperationCalls, operation

CALLER = Caller(folder="", environ={})


@operation("words.count")
def count_later(pool: ThreadPoolExecutor) -> Future[int]:
    """Count."""
    return pool.submit(lambda: 3)


def test_a_call_waits_for_the_answer_that_another_thread_finds() -> None:
    context = Composition()
    with ThreadPoolExecutor(1) as pool:
        context.add(pool)
        calls = OperationCalls(context)
        future: object = calls.begin(count_later, CALLER)
        assert isinstance(future, Future)
        assert future.result() == 3
        answer: object = calls.call(count_later, CALLER)
        assert answer == 3
    assert count_later.is_deferred
    assert count_later.answer is int
