"""Events that arrive together are cleaned together, and each gets its own outcome."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
import uvloop

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.interfaces.bridge import MAX_INLINE_SCAN_CHARS, Bridge
from agent_memory.interfaces.event_recording import EventRecording
from agent_memory.kernel.errors import ContentBlocked
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.memory_engine import MemoryEngine

PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx\n-----END RSA PRIVATE KEY-----"
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


class CountingFilter(Re2Filter):
    """Counts the quick checks, and the threads that they run in."""

    def __init__(self) -> None:
        super().__init__(mode="redact", report=lambda _: None)
        self.checks = 0
        self.threads: set[str] = set()

    def is_clean(self, texts: Sequence[str], /) -> bool:
        self.checks += 1
        self.threads.add(threading.current_thread().name)
        return super().is_clean(texts)


@pytest.fixture
def secrets() -> CountingFilter:
    return CountingFilter()


def event(text: str, number: int = 0) -> Event:
    return Event(
        event_id=EventId(f"event-{number}"),
        session_id=SessionId("session"),
        at_ms=Millis(1),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
    )


def record(secrets: CountingFilter, texts: Sequence[str]) -> list[str | BaseException]:
    """Record texts that arrive in one turn of the loop. Return them as they are stored."""
    store = CommittedStore(MemoryEngine(), watch=lambda _: None)
    bridge = Bridge(2)
    log = StoredEventLog(store)
    ingest = Ingest(log=log, secrets=secrets, on_record=lambda: None)

    async def record_one(recording: EventRecording, event: Event) -> str:
        event_id, created = await recording.record(event)
        assert created
        stored = log.get(event_id)
        assert stored is not None
        return stored.text

    async def run() -> list[str | BaseException]:
        recording = EventRecording(ingest, bridge)
        return await asyncio.gather(
            *(record_one(recording, event(text, number)) for number, text in enumerate(texts)),
            return_exceptions=True,
        )

    try:
        return uvloop.run(run())
    finally:
        bridge.close()
        store.close()


def test_a_crowd_takes_few_checks(secrets: CountingFilter) -> None:
    texts = [f"the build of part {number} is green" for number in range(64)]
    assert record(secrets, texts) == texts
    assert secrets.checks < 16


def test_one_alone_is_checked_at_once(secrets: CountingFilter) -> None:
    assert record(secrets, ["hello"]) == ["hello"]
    assert secrets.checks == 1


def test_a_secret_is_removed_and_its_neighbours_stay(secrets: CountingFilter) -> None:
    texts = ["before", f"use {TOKEN} for it", "after", PRIVATE_KEY, "last"]
    before, token, after, key, last = record(secrets, texts)
    assert (before, after, last) == ("before", "after", "last")
    assert "[REDACTED:" in str(token)
    assert TOKEN not in str(token)
    assert isinstance(key, ContentBlocked)


def test_a_long_text_is_cleaned_off_the_loop(secrets: CountingFilter) -> None:
    long = "word " * MAX_INLINE_SCAN_CHARS
    assert record(secrets, [long]) == [long]
    assert threading.current_thread().name not in secrets.threads


def test_a_filter_that_fails_fails_each_of_them(
    secrets: CountingFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_lines: str) -> bool:
        raise RuntimeError("broken")

    monkeypatch.setattr(secrets, "suspects", fail)
    results = record(secrets, ["one", "two", "three"])
    assert [type(each) for each in results] == [ContentBlocked] * 3
