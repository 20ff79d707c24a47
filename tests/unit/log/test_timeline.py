"""The timeline shows what was said and done, not the titles and summaries of it."""

from collections.abc import Iterator

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, unexpected
from tests.memory_engine import MemoryEngine

KINDS: list[dict[str, str]] = [
    {TITLES: "agent"},
    {},
    {SUMMARIZES: "compaction"},
    {SUMMARIZES: "compaction"},
    {TITLES: "user"},
    {},
    {SUMMARIZES: "session"},
]


@pytest.fixture
def timeline() -> Iterator[Timeline]:
    store = CommittedStore(MemoryEngine(), unexpected)
    log = StoredEventLog(store)
    log.append(
        [
            Event(
                event_id=EventId(f"e{number}"),
                session_id=SessionId("s"),
                at_ms=Millis(number),
                type=EventType.ASSISTANT_MESSAGE,
                role=EventRole.ASSISTANT,
                text="words",
                metadata=metadata,
            )
            for number, metadata in enumerate(KINDS)
        ]
    ).result(TIMEOUT)
    yield Timeline(log)
    store.close()


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_lead_past_descriptions(timeline: Timeline, limit: int) -> None:
    for by_session in (True, False):
        seen: list[str] = []
        place: Position | None = None
        while True:
            page = (
                timeline.list_session("s", limit=limit, after=place)
                if by_session
                else timeline.list_events(0, MAX_MILLIS, limit=limit, after=place)
            )
            seen += [event.event_id for event in page.events]
            place = page.next
            if place is None:
                break
            assert page.events
        assert seen == ["e1", "e5"]


def test_a_description_is_read_by_its_id(timeline: Timeline) -> None:
    assert timeline.get_event("e2").metadata == {SUMMARIZES: "compaction"}
