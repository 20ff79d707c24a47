"""The audit log: entries in order, collected or awaited, and kept for a time."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_memory.features.access.adapters.audit_store import StoredAudit
from agent_memory.features.access.model.audit import AuditEntry, AuditFilter
from agent_memory.features.access.services import audit
from agent_memory.features.access.services.audit import DAY_MS, AuditLog
from agent_memory.kernel.errors import AgentMemoryError, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import OpenStore

TIMEOUT = 20.0
START = Millis(1_760_000_000_000)


class SetClock:
    def __init__(self) -> None:
        self.at = START

    def now(self) -> Millis:
        return self.at


class Failing(StoredAudit):
    """A log whose store cannot be written while `broken` is set, and waits while `held` is not."""

    def __init__(self, store: OrderedStore) -> None:
        super().__init__(store)
        self.broken = False
        self.held = threading.Event()
        self.held.set()

    def add(self, entries: Sequence[AuditEntry], /) -> None:
        assert self.held.wait(TIMEOUT)
        if self.broken:
            raise StorageFailed("the disk is full")
        super().add(entries)


class Kept:
    def __init__(self, store: OrderedStore) -> None:
        self.clock = SetClock()
        self.stored = Failing(store)
        self.lost: list[AuditEntry] = []
        self.log = AuditLog(self.stored, self.clock, days=30, on_failure=self._note)

    def _note(self, entries: Sequence[AuditEntry], _: AgentMemoryError) -> None:
        self.lost += entries

    def enter(self, target: str, *, must: bool = False, **fields: object) -> None:
        stored = self.log.enter(self.build(target, **fields), must=must)
        if stored is not None:
            stored.result(TIMEOUT)

    def build(self, target: str, **fields: object) -> AuditEntry:
        known: dict[str, object] = {
            "at_ms": self.clock.now(),
            "person": "ada",
            "key": "laptop",
            "interface": "http",
            "method": "POST",
            "status": 201,
        }
        return AuditEntry(target=target, **{**known, **fields})  # type: ignore[arg-type]

    def read(self, **wanted: object) -> list[AuditEntry]:
        self.log.close()
        found = AuditFilter(**wanted)  # type: ignore[arg-type]
        return list(self.log.list_entries(found, limit=100_000).entries)


@pytest.fixture
def trail(store: OrderedStore) -> Iterator[Kept]:
    trail = Kept(store)
    yield trail
    trail.stored.held.set()
    trail.log.close()


def test_what_must_be_stored_is_there_at_once(trail: Kept) -> None:
    trail.enter("/a", must=True)
    trail.enter("/b", must=True)
    page = trail.log.list_entries(AuditFilter(), limit=1)
    assert [entry.target for entry in page.entries] == ["/b"]
    rest = trail.log.list_entries(AuditFilter(), limit=9, before=page.next)
    assert [entry.target for entry in rest.entries] == ["/a"]
    assert rest.next is None


def test_others_alike_become_one_with_their_count(trail: Kept) -> None:
    trail.stored.held.clear()
    for _ in range(5):
        trail.enter("/a")
    trail.enter("/b", status=403)
    trail.stored.held.set()
    found = trail.read()
    assert {entry.target for entry in found} == {"/a", "/b"}
    assert sum(entry.count for entry in found if entry.target == "/a") == 5


def test_too_many_are_counted_and_none_that_must_be_stored_is_dropped(
    trail: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_WAITING", 3)
    trail.stored.held.clear()
    waiting = [trail.log.enter(trail.build("/first"), must=True)]  # it holds the writer
    for number in range(10):
        trail.enter(f"/{number}")
        waiting.append(trail.log.enter(trail.build(f"/must/{number}", status=403), must=True))
    trail.stored.held.set()
    for stored in waiting:
        assert stored is not None
        stored.result(TIMEOUT)
    found = trail.read()
    assert sum(entry.target.startswith("/must/") for entry in found) == 10
    dropped = sum(entry.count for entry in found if entry.method == "dropped")
    ordinary = sum(entry.count for entry in found if entry.target.lstrip("/").isdigit())
    assert dropped + ordinary == 10
    assert dropped > 0


def test_what_cannot_be_stored_is_handed_over(trail: Kept) -> None:
    trail.stored.broken = True
    trail.enter("/a", must=True)
    trail.enter("/b")
    assert trail.read() == []
    assert [entry.target for entry in trail.lost] == ["/a", "/b"]


def test_filters(trail: Kept) -> None:
    trail.enter("/events/1", must=True)
    trail.clock.at = Millis(START + 1000)
    trail.enter("/events/2", must=True, person="bob", key="ci", status=403, method="DELETE")
    for wanted in (
        {"person": "bob"},
        {"key": "ci"},
        {"method": "DELETE"},
        {"target": "/2"},
        {"refused": True},
        {"since": START + 1},
    ):
        assert [entry.target for entry in trail.read(**wanted)] == ["/events/2"], wanted
    assert [entry.target for entry in trail.read(until=START)] == ["/events/1"]


def test_old_entries_are_removed(trail: Kept) -> None:
    trail.enter("/old", must=True)
    trail.clock.at = Millis(START + 31 * DAY_MS)
    trail.enter("/new", must=True)
    trail.log.trim()
    assert [entry.target for entry in trail.read()] == ["/new"]


def test_more_than_fits_is_removed(trail: Kept) -> None:
    for number in range(5):
        trail.enter(f"/{number}", must=True)
    trail.stored.trim(keep=2, since=Millis(0))
    assert [entry.target for entry in trail.read()] == ["/4", "/3"]


def test_they_are_there_after_a_restart(open_durable: OpenStore, tmp_path: Path) -> None:
    store = open_durable(tmp_path)
    trail = Kept(store)
    trail.enter("/waits")
    trail.log.close()
    store.close()
    store = open_durable(tmp_path)
    try:
        (found,) = Kept(store).read()
        assert (found.person, found.target, found.status) == ("ada", "/waits", 201)
    finally:
        store.close()
