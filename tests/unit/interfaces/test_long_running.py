"""Long-running calls: progress, cancellation and limits."""

import asyncio
import threading

import pytest

from agent_memory.interfaces import long_running
from agent_memory.interfaces.long_running import ProgressStep, TaskRunner
from agent_memory.kernel.errors import Cancelled, InvalidInput, Overloaded
from agent_memory.kernel.progress import OnProgress
from tests.command_runner import SECONDS


async def quietly(_number: int, _step: ProgressStep) -> None:
    """Ignore progress."""


def test_progress_only_ever_rises_and_its_last_step_is_told() -> None:
    steps: list[tuple[int, str]] = []
    seen = threading.Event()

    def work(on_progress: OnProgress) -> str:
        on_progress("comparing", 0, 2)
        assert seen.wait(SECONDS)  # it goes on only once that was told
        for number in range(100):
            on_progress("merging", number, 100)
        return "bread"

    async def report(number: int, step: ProgressStep) -> None:
        steps.append((number, step.message))
        seen.set()

    async def run() -> str:
        runner = TaskRunner()
        try:
            return await runner.run(work, report)
        finally:
            runner.close()

    assert asyncio.run(run()) == "bread"
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
    assert steps[0] == (1, "Comparing: 0 of 2")
    assert steps[-1][1] == "Merging: 99 of 100"


def test_what_fails_is_raised() -> None:
    def work(_: OnProgress) -> None:
        raise InvalidInput("no flour")

    async def run() -> None:
        await TaskRunner().run(work, quietly)

    with pytest.raises(InvalidInput, match="no flour"):
        asyncio.run(run())


@pytest.mark.parametrize("closed", [False, True])
def test_work_that_nobody_waits_for_ends_at_its_next_step(closed: bool) -> None:
    begun, left, ended = threading.Event(), threading.Event(), threading.Event()

    def work(on_progress: OnProgress) -> None:
        begun.set()
        assert left.wait(SECONDS)
        try:
            on_progress("baking", 1, 2)
        except Cancelled:
            ended.set()
            raise

    async def run() -> None:
        runner = TaskRunner()
        call = asyncio.create_task(runner.run(work, quietly))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        if closed:
            runner.close()
            left.set()
            with pytest.raises(Cancelled):
                await call
        else:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            left.set()
        assert await asyncio.to_thread(ended.wait, SECONDS)

    asyncio.run(run())


def test_what_still_waits_when_it_is_given_up_is_never_begun() -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        assert go_on.wait(SECONDS)

    async def run() -> None:
        runner = TaskRunner()
        first = [
            asyncio.create_task(runner.run(lambda _, n=n: work(n), quietly))  # type: ignore[misc]
            for n in range(long_running.AT_ONCE)
        ]
        waiting = asyncio.create_task(runner.run(lambda _: work(99), quietly))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        await asyncio.gather(*first)

    asyncio.run(run())
    assert sorted(begun) == list(range(long_running.AT_ONCE))


def test_closing_drops_the_calls_that_wait() -> None:
    go_on, started = threading.Event(), threading.Barrier(long_running.AT_ONCE + 1)
    begun: list[int] = []

    def work(_: OnProgress) -> None:
        started.wait(SECONDS)
        assert go_on.wait(SECONDS)

    async def run() -> None:
        runner = TaskRunner()
        first = [
            asyncio.create_task(runner.run(work, quietly)) for _ in range(long_running.AT_ONCE)
        ]
        await asyncio.to_thread(started.wait, SECONDS)
        waiting = asyncio.create_task(runner.run(lambda _: begun.append(1), quietly))
        await asyncio.sleep(0)
        runner.close()
        with pytest.raises(Cancelled):
            await waiting
        go_on.set()
        await asyncio.gather(*first)

    asyncio.run(run())
    assert begun == []


def test_too_much_is_refused() -> None:
    go_on = threading.Event()

    async def run() -> None:
        runner = TaskRunner(max_tasks=10)
        calls = [
            asyncio.create_task(runner.run(lambda _: go_on.wait(SECONDS), quietly))
            for _ in range(10)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await runner.run(lambda _: None, quietly)
        go_on.set()
        await asyncio.gather(*calls)

    asyncio.run(run())
