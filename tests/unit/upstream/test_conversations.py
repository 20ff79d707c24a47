"""When a conversation may leave: after its session, its last captures and their review."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import REPOSITORY
from agent_memory.features.log.services.ingest import Clean, Ingest
from agent_memory.features.memories.adapters.memory_store import MemoryOutlines, StoredMemories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.upstream.adapters.upstream_store import StoredUpstream
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.services.conversations import OVER_MS, Conversations
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.memory_engine import MemoryEngine
from tests.memory_values import memory

REPOSITORY_OF_SHOP = "git.example/acme/shop"
SCOPE = SharedScope(frozenset({"shop"}), conversations=frozenset({REPOSITORY_OF_SHOP}))
START_MS, DELAY_MS = 1_700_000_000_000, 600_000


@dataclass
class Laptop:
    """The stores of a laptop, with a clock that a test sets."""

    store: CommittedStore
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        self.log = StoredEventLog(self.store)
        self.memories = StoredMemories(self.store)
        self.conversations = Conversations(
            StoredUpstream(self.store),
            self.log,
            self.memories,
            MemoryOutlines(self.store),
            self,
        )

    def now(self) -> Millis:
        return Millis(self.now_ms)

    def say(
        self,
        name: str,
        session: str,
        kind: EventType = EventType.USER_MESSAGE,
        repository: str = REPOSITORY_OF_SHOP,
    ) -> None:
        """Record an event, and see it in the outbox as the exchange does."""
        event = Event(
            event_id=EventId(name),
            session_id=SessionId(session),
            at_ms=self.now(),
            type=kind,
            role=EventRole.USER,
            text=f"words of {name}",
            metadata={"project": "shop", REPOSITORY: repository},
        )
        Ingest(self.log, PassThrough(), lambda: None).submit([Clean(event)]).result()
        self.conversations.hold([event], SCOPE)

    def note(self, session: str, event: str = "") -> Memory:
        noted = replace(
            memory("We use the tide", status=MemoryStatus.PENDING),
            session_id=session,
            event_id=event,
        )
        assert self.memories.write([MemoryChange(None, noted, None)]) == [True]
        return noted

    def list_due(self) -> dict[str, list[str]]:
        return {
            held.session_id: [event.event_id for event in self.conversations.iter_events(held)]
            for held in self.conversations.iter_due(DELAY_MS)
        }

    def release_due(self) -> None:
        for held in self.conversations.iter_due(DELAY_MS):
            self.conversations.held.release(held)


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield Laptop(store)
    store.close()


def test_it_waits_for_the_end_and_some_minutes_more(laptop: Laptop) -> None:
    laptop.say("one", "s")
    laptop.now_ms += OVER_MS - 1
    assert laptop.list_due() == {}  # it may go on, and its end may note something of `one`
    laptop.say("two", "s", EventType.SESSION_END)
    assert laptop.list_due() == {}
    laptop.now_ms += DELAY_MS - 1
    assert laptop.list_due() == {}
    laptop.now_ms += 1
    assert laptop.list_due() == {"s": ["one", "two"]}


def test_without_an_end_it_waits_a_day(laptop: Laptop) -> None:
    laptop.say("one", "s")
    laptop.now_ms += OVER_MS
    assert laptop.list_due() == {"s": ["one"]}


def test_what_was_recorded_late_waits_too(laptop: Laptop) -> None:
    """Hooks leave their calls in a spool while no daemon runs: what they note comes later."""
    laptop.say("end", "s", EventType.SESSION_END)
    laptop.now_ms += OVER_MS
    laptop.release_due()
    event = laptop.log.get(EventId("end"))
    assert event is not None
    laptop.conversations.hold([event], SCOPE)
    assert laptop.list_due() == {}


@pytest.mark.parametrize("session", ["s", "s/helper"])
def test_it_waits_for_the_review_of_what_was_noted_in_it(laptop: Laptop, session: str) -> None:
    laptop.say("one", "s")
    laptop.say("two", "s/helper")
    laptop.say("other", "another")
    noted = laptop.note(session)
    laptop.now_ms += OVER_MS
    assert laptop.list_due() == {"another": ["other"]}
    accepted = memories.accept(noted, laptop.now())
    assert laptop.memories.write([MemoryChange(noted, accepted, None)]) == [True]
    assert laptop.list_due().keys() == {"s", "s/helper", "another"}


def test_a_note_that_names_only_its_event_holds_the_session_back(laptop: Laptop) -> None:
    laptop.say("one", "s")
    laptop.note("", "one")
    laptop.now_ms += OVER_MS
    assert laptop.list_due() == {}


def test_what_goes_on_later_is_sent_from_there(laptop: Laptop) -> None:
    laptop.say("one", "s", EventType.SESSION_END)
    laptop.now_ms += OVER_MS
    (held,) = laptop.conversations.iter_due(DELAY_MS)
    laptop.say("two", "s")  # while the first part is on its way
    laptop.conversations.held.release(held)
    assert laptop.list_due() == {}
    laptop.now_ms += OVER_MS
    assert laptop.list_due() == {"s": ["one", "two"]}  # the server knows the first one
    laptop.release_due()
    laptop.say("three", "s", EventType.SESSION_END)
    laptop.now_ms += DELAY_MS
    assert laptop.list_due() == {"s": ["three"]}


def test_only_the_repository_counts(laptop: Laptop) -> None:
    laptop.say("named", "a", repository="")
    laptop.say("other", "b", repository="git.example/client/shop")
    laptop.now_ms += OVER_MS
    assert laptop.list_due() == {}
