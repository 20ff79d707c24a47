"""A caller who waits is answered though the database is silent, and nothing is doubled."""

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from agent_memory.kernel import deadlines
from agent_memory.kernel.errors import StorageUnwritable
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Absent, Batch, CommitOutcome, Committed, Put
from agent_memory.platform.store.transacted import TransactedStore, open_transacted
from tests.contract.stores import TIMEOUT, unexpected
from tests.memory_database import MemoryDatabase, MemoryServer, RealTime

Outcomes = Future[list[CommitOutcome]]


class Silent(RealTime):
    """A server that says nothing while it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.speaks = threading.Event()
        self.is_asked = threading.Event()
        self.speaks.set()

    def step(self) -> None:
        if not self.speaks.is_set():
            self.is_asked.set()
        assert self.speaks.wait(TIMEOUT)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 0.2)
    silent = Silent()
    yield silent
    silent.speaks.set()


@pytest.fixture
def store(server: Silent) -> Iterator[TransactedStore]:
    database = MemoryDatabase(MemoryServer(), server)
    created = open_transacted(database, unexpected, holder="test", label="a test")
    yield created
    server.speaks.set()
    created.close()


def put(name: bytes) -> Batch:
    return Batch((Put(families.EVENTS, name, b"v"),), (Absent(families.EVENTS, name),))


def ask(work: Callable[[], Outcomes], seconds: float | None = None) -> Outcomes:
    """Do something for a caller who waits."""

    def wait() -> Outcomes:
        deadlines.expect_answer(seconds)
        return work()

    return contextvars.copy_context().run(wait)


def test_who_waits_is_told_and_what_was_sent_may_be_sent_again(
    server: Silent, store: TransactedStore
) -> None:
    server.speaks.clear()
    job = store.submit([put(b"job")])
    assert server.is_asked.wait(TIMEOUT)  # the group of the job is under way
    waiting = ask(lambda: store.submit([put(b"waiting")]))
    with pytest.raises(StorageUnwritable, match="try again"):
        waiting.result(TIMEOUT)
    assert not job.done()
    server.speaks.set()
    assert isinstance(job.result(TIMEOUT)[0], Committed)
    assert store.get(families.EVENTS, b"waiting") is None  # they were told that it is not written
    assert isinstance(store.submit([put(b"waiting")]).result(TIMEOUT)[0], Committed)


def test_what_is_under_way_may_be_written_and_is_not_doubled(
    server: Silent, store: TransactedStore
) -> None:
    server.speaks.clear()
    sent = ask(lambda: store.submit([put(b"a")]))
    with pytest.raises(StorageUnwritable) as told:
        sent.result(TIMEOUT)
    server.speaks.set()
    again = store.submit([put(b"a")]).result(TIMEOUT)
    # What was under way came through, once. A slow machine may not have begun with it.
    assert isinstance(again[0], Committed) == ("try again" in str(told.value))
    assert store.get(families.EVENTS, b"a") == b"v"


def test_a_shorter_deadline_counts_and_a_second_question_does_not_wait_again(
    server: Silent, store: TransactedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 10 * TIMEOUT)
    server.speaks.clear()
    answers: list[Outcomes] = []

    def twice() -> Outcomes:
        for name in (b"a", b"b"):
            answers.append(store.submit([put(name)]))
            with pytest.raises(StorageUnwritable):
                answers[-1].result(TIMEOUT)
        return answers[-1]

    ask(twice, seconds=0.1)
    ask(lambda: store.submit([put(b"c")]), seconds=10 * TIMEOUT)
    assert len(answers) == 2


def test_nobody_waits_in_a_job() -> None:
    assert contextvars.copy_context().run(deadlines.find_limit) is None
