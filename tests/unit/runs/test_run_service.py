"""Runs as a whole: how many there are, and how those end that never begin."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import CallId
from agent_memory.features.runs.model.machine import Approve, Failed, RunEvent, RunId, Start
from agent_memory.features.runs.services.runs import (
    MAX_WAITING,
    STOPPING,
    RunDependencies,
    RunEnvironment,
    Runs,
)
from agent_memory.kernel.errors import FeatureUnavailable, NotFound, Overloaded
from tests.processes import LONG, wait_until


@dataclass
class Ear:
    heard: list[RunEvent] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def on_event(self, event: RunEvent) -> None:
        self.heard.append(event)

    def on_end(self) -> None:
        self.ended.set()

    def all(self) -> list[RunEvent]:
        assert self.ended.wait(LONG), "it does not end"
        return self.heard


def create_runs(
    load: Callable[[], RunDependencies], *, max_runs: int = 2, start_seconds: float = LONG
) -> tuple[Runs, list[BaseException]]:
    crashes: list[BaseException] = []
    around = RunEnvironment(
        load=load,
        new_id=lambda: "r1",
        on_crash=crashes.append,
        max_runs=max_runs,
        start_seconds=start_seconds,
    )
    return Runs(around), crashes


def missing() -> RunDependencies:
    raise NotFound("there is no agent 'x'")


def test_one_that_is_never_started_is_ended() -> None:
    found, _ = create_runs(missing, start_seconds=0.0)
    ear = Ear()
    found.open(ear)
    assert ear.all() == [Failed(RunId(""), machine.NOT_STARTED)]
    assert found.list_active() == []


def test_what_fails_is_told_with_its_kind() -> None:
    found, _ = create_runs(missing)
    ear = Ear()
    found.open(ear).command(Start(prompt="Go"))
    assert ear.all() == [Failed(RunId("r1"), "there is no agent 'x'", NotFound)]


def test_a_fault_of_ours_is_told_to_the_log_and_ends_the_run() -> None:
    def broken() -> RunDependencies:
        raise ZeroDivisionError("a secret")

    found, crashes = create_runs(broken)
    ear = Ear()
    found.open(ear).command(Start(prompt="Go"))
    (end,) = ear.all()
    assert isinstance(end, Failed)
    assert "secret" not in end.error
    assert [type(each) for each in crashes] == [ZeroDivisionError]


def test_there_are_only_so_many_at_once() -> None:
    found, _ = create_runs(missing)
    ears = [Ear(), Ear()]
    running = [found.open(each) for each in ears]
    with pytest.raises(Overloaded, match="2 runs are active"):
        found.open(Ear())
    running[0].leave()
    ears[0].all()
    found.open(Ear()).leave()
    running[1].leave()


def test_commands_do_not_pile_up() -> None:
    held = threading.Event()

    class Stuck(Ear):
        def on_event(self, event: RunEvent) -> None:
            held.wait(LONG)
            super().on_event(event)

    found, _ = create_runs(missing)
    ear = Stuck()
    running = found.open(ear)
    running.command(Start(prompt="Go"))

    def flood() -> None:
        for _ in range(2 * MAX_WAITING):
            running.command(Approve(CallId("x")))

    with pytest.raises(Overloaded):
        flood()
    running.leave()  # is always taken
    held.set()
    ear.all()


def test_at_the_end_of_the_daemon_those_that_go_on_are_told() -> None:
    waiting = threading.Event()

    def slow() -> RunDependencies:
        waiting.wait(LONG)
        raise NotFound("too late")

    found, _ = create_runs(slow)
    ear = Ear()
    found.open(ear).command(Start(prompt="Go"))
    found.close(0.0)
    waiting.set()
    assert ear.all() == [Failed(RunId("r1"), STOPPING)]
    wait_until(lambda: not found._active)  # noqa: SLF001
    with pytest.raises(FeatureUnavailable):
        found.open(Ear())
