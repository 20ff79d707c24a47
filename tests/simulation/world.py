"""A world with one clock and many processes, in which a seed decides about every step.

Processes are threads, but only one of them runs at a time: each gives way at its steps, and the
world chooses who goes on. The same seed therefore leads to the same history.
"""

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from agent_memory.kernel.ids import Millis
from tests.memory_database import CommitFate

T = TypeVar("T")

START_MS = 1_700_000_000_000
STEP_MS = 40  # that a step takes at most
TIMEOUT = 60.0  # of real time, for one that does not give way


class Crashed(BaseException):
    """The process ends here. Nobody may catch it but the world."""


class Process:
    """A process of a world. It is the Surroundings of its databases."""

    def __init__(self, world: "World", name: str, work: Callable[["Process"], None]) -> None:
        self.world = world
        self.name = name
        self.crashing = self.ended = False
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)
        self.is_ready: Callable[[], bool] = lambda: True
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now_ms(self) -> Millis:
        return Millis(self.world.now_ms)

    def step(self) -> None:
        """Give way to others, and maybe stop here for good or for a long time."""
        self._give_way(lambda: True)

    def wait_until(self, condition: Callable[[], bool], timeout_ms: int, /) -> bool:
        deadline = self.world.now_ms + timeout_ms
        held = False

        def is_ready() -> bool:
            nonlocal held
            held = held or condition()  # asked once more, a lock would be taken twice
            return held or self.world.now_ms >= deadline

        if not is_ready():
            self._give_way(is_ready)
        return held

    def sleep(self, most_ms: int) -> None:
        deadline = self.world.now_ms + self.world.dice.randrange(most_ms + 1)
        self._give_way(lambda: self.world.now_ms >= deadline)

    def choose_fate(self) -> CommitFate:
        return self.world.choose_fate()

    def call_later(self, work: Callable[[], None], /) -> None:
        self.world.call_later(work)

    def join(self) -> None:
        self._thread.join(TIMEOUT)

    def _give_way(self, is_ready: Callable[[], bool]) -> None:
        if self.crashing:
            raise Crashed
        self.is_ready = is_ready
        self.world.turn.release()
        self.go.acquire()
        if self.crashing:
            raise Crashed

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.crashing:
                self._work(self)
        except Crashed:
            pass
        except BaseException as exc:
            self.error = exc
        self.ended = True
        self.world.turn.release()


class World:
    """Runs processes step by step. `trouble` is the chance of a fault at a step."""

    def __init__(self, seed: int, trouble: float) -> None:
        self.dice = random.Random(seed)
        self.now_ms = START_MS
        self.trouble = trouble
        self.turn = threading.Semaphore(0)
        self.history: list[str] = []
        self.events: dict[str, int] = {}
        self._processes: list[Process] = []
        self._paused: dict[Process, int] = {}
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._ending = False

    def spawn(self, name: str, work: Callable[[Process], None]) -> None:
        if not self._ending:
            self._processes.append(Process(self, name, work))

    def call_later(self, work: Callable[[], None], most_ms: int = 4_000) -> None:
        self._later.append((self.now_ms + self.dice.randrange(most_ms), work))

    def choose_fate(self) -> CommitFate:
        if self.dice.random() >= 4 * self.trouble:
            return CommitFate.ANSWERED
        fate = self.dice.choice([each for each in CommitFate if each is not CommitFate.ANSWERED])
        self.count(fate.value)
        return fate

    def count(self, what: str) -> None:
        self.events[what] = self.events.get(what, 0) + 1

    def record(self, what: str) -> None:
        self.history.append(f"{self.now_ms - START_MS}: {what}")

    def run(self, seconds: float) -> None:
        """Run for so long by the world's clock, then end every process."""
        until = self.now_ms + int(seconds * 1000)
        try:
            while self.now_ms < until and self._processes:
                self._advance()
        finally:
            self._ending = True
            for process in list(self._processes):
                self._end(process)
        for _, work in sorted(self._later, key=_get_time):
            work()  # what the server had been sent

    def _advance(self) -> None:
        self.now_ms += self.dice.randrange(STEP_MS)
        due = [each for each in self._later if each[0] <= self.now_ms]
        self._later = [each for each in self._later if each[0] > self.now_ms]
        for _, work in sorted(due, key=_get_time):
            work()
        ready = [each for each in self._processes if self._can_go_on(each)]
        if not ready:
            self.now_ms += 100
            return
        process = self.dice.choice(ready)
        if self.dice.random() < self.trouble:
            self._disturb(process)
        else:
            self._let_go_on(process)

    def _can_go_on(self, process: Process) -> bool:
        return self._paused.get(process, 0) <= self.now_ms and process.is_ready()

    def _disturb(self, process: Process) -> None:
        """Kill a process, or stop it for longer than a lease lasts."""
        if self.dice.random() < 0.5:
            self.count("crash")
            self.record(f"{process.name} crashes")
            self._end(process)
        else:
            self.count("pause")
            pause = self.dice.randrange(1_000, 90_000)
            self.record(f"{process.name} stops for {pause} ms")
            self._paused[process] = self.now_ms + pause

    def _end(self, process: Process) -> None:
        process.crashing = True
        while not process.ended:
            self._let_go_on(process)

    def _let_go_on(self, process: Process) -> None:
        process.go.release()
        if not self.turn.acquire(timeout=TIMEOUT):
            raise AssertionError(f"{process.name} does not give way")
        if process.ended:
            self._processes.remove(process)
            process.join()
            if process.error is not None:
                raise process.error


def _get_time(scheduled: tuple[int, Callable[[], None]]) -> int:
    return scheduled[0]
