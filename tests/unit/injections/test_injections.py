"""The ledger of injections: its filters, its days, and what forgetting removes from it."""

from collections.abc import Iterator
from datetime import UTC, date, timedelta, timezone
from pathlib import Path

import pytest

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.injections.model.injections import (
    KEPT_DAYS,
    DayCount,
    Injection,
    LedgerEntry,
    LedgerScope,
)
from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Home
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Domain, EventId, Millis, SessionId
from agent_memory.platform.store import families
from tests.contract.stores import everything
from tests.forgetting_parts import ForgettingHarness, open_harness
from tests.recall_parts import DAY, HOUR, MINUTE, NOW, make_dialogue, make_event

SHOP = MemoryLocation(domain=Domain("project:shop"), home=Home("/shop/.git"))
HARBOUR = make_dialogue(
    "How do we paint the crane at the harbour?",
    "We decided to paint the crane green.",
    begin=NOW - 3 * DAY,
    session="harbour",
)
MILL = make_dialogue(
    "The mill stands still since the storm.",
    "We decided to mend the mill on Friday.",
    begin=NOW - 2 * DAY,
    session="mill",
)


class LedgerHarness:
    """The ledger over a store with two conversations and a memory."""

    def __init__(self, inner: ForgettingHarness) -> None:
        self.inner, self.injections = inner, inner.injections
        inner.take_in(*HARBOUR, *MILL)
        capture = Capture(
            memories=StoredMemories(inner.parts.store),
            log=inner.parts.log,
            secrets=PassThrough(),
            clock=inner.clock,
            on_capture=lambda: None,
        )
        draft = Draft(namespace="decisions", summary="Use PostgreSQL")
        self.memory = capture.capture(draft, SHOP).memory

    def record(
        self,
        *items: str,
        at: int = NOW,
        session: str = "mill",
        project: str = "shop",
        event: str = "e1",
        text: str = "four tokens here",
    ) -> None:
        self.inner.clock.at_ms = at
        self.injections.record(
            Injection(text=text, items=items),
            session_id=SessionId(session),
            event_id=EventId(event),
            agent="claude-code",
            project=project,
            hook="user-prompt",
        )
        self.inner.clock.at_ms = NOW

    def find(self, **scope: object) -> list[LedgerEntry]:
        wanted = LedgerScope(**scope)  # type: ignore[arg-type]
        return list(self.injections.list_entries(wanted, limit=100).entries)

    def find_rows(self, words: str) -> list[bytes]:
        rows = everything(self.inner.parts.store, families.INJECTIONS)
        return [value for _, value in rows if words.encode() in value]

    def list_uris(self, area: str) -> list[str]:
        """List the URIs of the grips or the nodes of the conversation at the harbour."""
        toc = self.inner.parts.toc
        nodes = [each for each in toc.get_nodes(toc.list_ids("toc:", after=None, limit=99)) if each]
        held = [each for each in nodes if each.session == "harbour"]
        if area == documents.CONTENTS:
            return [documents.format_uri(area, node.node_id) for node in held]
        return [documents.format_uri(area, grip) for node in held for grip in node.grip_ids()]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LedgerHarness]:
    with open_harness(tmp_path) as found:
        yield LedgerHarness(found)


class TestListing:
    def test_an_entry_has_all_but_the_text(self, ledger: LedgerHarness) -> None:
        ledger.record(ledger.memory.urn, text="the words that were given")
        (entry,) = ledger.find()
        assert entry == LedgerEntry(
            at_ms=Millis(NOW),
            session_id=SessionId("mill"),
            event_id=EventId("e1"),
            agent="claude-code",
            project="shop",
            hook="user-prompt",
            items=(ledger.memory.urn,),
            tokens=7,
            number=1,
        )
        assert ledger.find_rows("words") == []

    def test_each_filter(self, ledger: LedgerHarness) -> None:
        ledger.record("memory://grips/a", at=NOW - HOUR, session="s1")
        ledger.record("memory://grips/b", session="s1/agent", project="other")
        ledger.record("memory://grips/a", "memory://grips/b", session="s10")
        for scope, numbers in (
            ({}, [3, 2, 1]),
            ({"session": "s1"}, [2, 1]),
            ({"session": "s1/agent"}, [2]),
            ({"project": "shop"}, [3, 1]),
            ({"items": frozenset({"memory://grips/a", "memory://grips/x"})}, [3, 1]),
            ({"since": Millis(NOW)}, [3, 2]),
            ({"until": Millis(NOW - 1)}, [1]),
            ({"session": "s1", "project": "shop"}, [1]),
        ):
            assert [entry.number for entry in ledger.find(**scope)] == numbers, scope

    def test_pages_have_no_gap(self, ledger: LedgerHarness) -> None:
        for number in range(7):
            ledger.record(session="s1" if number % 2 else "s2")
        scope, before, found = LedgerScope(session="s2"), None, []
        while True:
            page = ledger.injections.list_entries(scope, limit=2, before=before)
            found += [entry.number for entry in page.entries]
            before = page.next
            if before is None:
                break
        assert found == [7, 5, 3, 1]

    def test_an_older_entry_after_a_clock_change_is_found(self, ledger: LedgerHarness) -> None:
        ledger.record(at=NOW - HOUR)
        ledger.record(at=NOW - 400 * DAY)
        ledger.record()
        assert [entry.number for entry in ledger.find(since=Millis(NOW - DAY))] == [3, 1]

    def test_a_range_that_ends_before_it_begins(self) -> None:
        with pytest.raises(InvalidInput, match="before it begins"):
            LedgerScope(since=Millis(2), until=Millis(1))

    def test_records_of_every_kind_have_a_title(self, ledger: LedgerHarness) -> None:
        fact = ledger.inner.parts.facts.claim(Claim(key="editor", value="vim"))
        event = documents.format_uri(documents.EVENTS, HARBOUR[0].event_id)
        uris = [
            ledger.memory.urn,
            event,
            *ledger.list_uris(documents.CONTENTS),
            *ledger.list_uris(documents.GRIPS)[:1],
            documents.format_uri(documents.FACTS, fact.id),
            "memory://events/unknown",
            "memory://sessions/harbour",
        ]
        ledger.record(*uris)
        read = ledger.injections.read_items(ledger.find())
        assert list(read) != []
        assert set(read) == set(uris[:-2])
        assert {each.kind for each in read.values()} == set(DocumentKind)
        assert read[ledger.memory.urn].title == "Use PostgreSQL"
        assert read[event].title == HARBOUR[0].text


class TestDays:
    def test_today_and_the_days_before(self, ledger: LedgerHarness) -> None:
        ledger.record(session="s1")
        ledger.record(session="s1", at=NOW - MINUTE)
        ledger.record(session="s2", at=NOW - DAY)
        ledger.record(session="s3", at=NOW - 7 * DAY)
        today = date(2026, 6, 10)
        assert ledger.injections.count_days(UTC, 3) == [
            DayCount(day=today, injections=2, tokens=8, sessions=1),
            DayCount(day=today - timedelta(days=1), injections=1, tokens=4, sessions=1),
            DayCount(day=today - timedelta(days=2)),
        ]

    def test_days_are_those_of_the_zone(self, ledger: LedgerHarness) -> None:
        ledger.record(at=NOW - 11 * HOUR)  # 01:00 UTC
        west = timezone(timedelta(hours=-5))
        assert [day.injections for day in ledger.injections.count_days(UTC, 2)] == [1, 0]
        assert [day.injections for day in ledger.injections.count_days(west, 2)] == [0, 1]


class TestForgetting:
    def test_a_forgotten_session_leaves_no_entry(self, ledger: LedgerHarness) -> None:
        ledger.record(session="harbour")
        ledger.record(session="mill")
        ledger.inner.forget(session_id=SessionId("harbour"))
        assert [entry.session_id for entry in ledger.find()] == ["mill"]
        assert ledger.find_rows("harbour") == []

    def test_a_forgotten_call_leaves_no_entry(self, ledger: LedgerHarness) -> None:
        prompt = HARBOUR[0]
        ledger.record(session="harbour", event=prompt.event_id)
        ledger.record(session="harbour", event="another")
        ledger.inner.forget(event_id=prompt.event_id)
        assert [entry.event_id for entry in ledger.find()] == ["another"]

    def test_a_session_that_goes_on_stays(self, ledger: LedgerHarness) -> None:
        ledger.record(session="harbour")
        until = Millis(HARBOUR[-1].at_ms)
        ledger.inner.take_in(make_event("The crane is green.", NOW - DAY, session="harbour"))
        ledger.inner.forget(since=Millis(0), until=until)
        assert len(ledger.find()) == 1

    @pytest.mark.parametrize("area", [documents.EVENTS, documents.GRIPS, documents.CONTENTS])
    def test_what_was_made_from_it_is_in_no_entry(self, ledger: LedgerHarness, area: str) -> None:
        uris = [documents.format_uri(area, event.event_id) for event in HARBOUR]
        if area != documents.EVENTS:
            uris = ledger.list_uris(area)
        assert uris
        ledger.record(*uris, ledger.memory.urn)
        report = ledger.inner.forget(session_id=SessionId("harbour"))
        assert report.proof.found_in == ()
        (entry,) = ledger.find()
        assert entry.items == (ledger.memory.urn,)
        assert ledger.find_rows(area) == []

    def test_a_forgotten_memory_is_in_no_entry(self, ledger: LedgerHarness) -> None:
        event = documents.format_uri(documents.EVENTS, MILL[0].event_id)
        ledger.record(event, ledger.memory.urn)
        ledger.record(ledger.memory.urn)
        stone = memories.build_tombstone(ledger.memory, Millis(NOW))
        StoredMemories(ledger.inner.parts.store).write([MemoryChange(ledger.memory, stone, None)])
        assert ledger.injections.read_items(ledger.find()).keys() == {event}
        ledger.injections.remove_missing()
        assert [entry.items for entry in ledger.find()] == [(), (event,)]
        assert ledger.find_rows(ledger.memory.digest[:12]) == []


def test_old_entries_are_trimmed(ledger: LedgerHarness) -> None:
    ledger.record(at=NOW - (KEPT_DAYS + 1) * DAY)
    ledger.record(at=NOW - (KEPT_DAYS - 1) * DAY)
    ledger.injections.trim()
    assert [entry.number for entry in ledger.find()] == [2]
