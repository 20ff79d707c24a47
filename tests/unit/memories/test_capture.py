"""Capture: what is stored, the warnings, and what is refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.memory_store import StoredMemories, StoredNoteQueue
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, unexpected
from tests.memory_engine import MemoryEngine
from tests.recall_parts import NOW, FixedClock, make_event

PLACE = MemoryLocation(domain=Domain("project:shop"), home=Home("/shop/.git"), commit="a" * 40)
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
PRIVATE_KEY = f"-----BEGIN {'RSA'} PRIVATE KEY-----\n{'MIIEow' * 40}\n-----END RSA PRIVATE KEY-----"


class Parts:
    """Capture on its own store."""

    def __init__(self, store: CommittedStore) -> None:
        self.memories = StoredMemories(store)
        self.queue = StoredNoteQueue(store)
        self.log = StoredEventLog(store)
        self.told = 0
        self.capture = self.at(NOW)

    def at(self, now: Millis) -> Capture:
        return Capture(
            memories=self.memories,
            log=self.log,
            secrets=Re2Filter(mode="redact"),
            clock=FixedClock(now),
            on_capture=self._captured,
        )

    def waiting(self) -> list[MemoryKey]:
        return [key for _, key in self.queue.list_pending(PLACE.home, limit=100)]

    def change(self, memory: Memory, **fields: object) -> Memory:
        changed = memories.update_fields(memory, NOW, **fields)
        assert self.memories.write([MemoryChange(memory, changed, None)]) == [True]
        return changed

    def _captured(self) -> None:
        self.told += 1


@pytest.fixture
def parts() -> Iterator[Parts]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield Parts(store)
    store.close()


def draft(summary: str = "Use PostgreSQL", **fields: object) -> Draft:
    return Draft(namespace="decisions", summary=summary, **fields)  # type: ignore[arg-type]


class TestKeeping:
    def test_it_is_in_the_store_and_waits_for_its_note(self, parts: Parts) -> None:
        result = parts.capture.capture(draft(content="for its JSONB", tags=frozenset("a")), PLACE)
        memory = result.memory
        assert (result.created, result.warning) == (True, None)
        assert parts.memories.get(memory.key) == memory
        assert (memory.created_ms, memory.updated_ms, memory.commit) == (NOW, NOW, "a" * 40)
        assert parts.waiting() == [memory.key]
        assert parts.told == 1

    def test_a_time_of_its_own_is_kept(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(created_ms=Millis(5)), PLACE).memory
        assert (memory.created_ms, memory.updated_ms) == (5, NOW)

    def test_an_event_gives_its_session(self, parts: Parts) -> None:
        event = make_event("we use PostgreSQL", session="talk")
        parts.log.append([event]).result(TIMEOUT)
        memory = parts.capture.capture(draft(event_id=event.event_id), PLACE).memory
        assert (memory.event_id, memory.session_id) == (event.event_id, "talk")

    def test_an_event_that_is_not_there_is_refused(self, parts: Parts) -> None:
        with pytest.raises(InvalidInput, match="no event 'nothing'"):
            parts.capture.capture(draft(event_id="nothing"), PLACE)
        assert parts.told == 0

    def test_many_at_once_are_one_where_they_say_the_same(self, parts: Parts) -> None:
        drafts = [draft(tags=frozenset({str(number)})) for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda each: parts.capture.capture(each, PLACE), drafts))
        assert sum(each.created for each in results) == 1
        stored = parts.memories.get(results[0].memory.key)
        assert stored is not None
        assert stored.tags == frozenset("01234567")


class TestAwaitingReview:
    def test_it_is_stored_and_waits_for_no_note(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(status=MemoryStatus.PENDING), PLACE).memory
        assert memory.is_pending
        assert parts.memories.get(memory.key) == memory
        assert parts.waiting() == []

    def test_a_signal_changes_nothing_that_is_known(self, parts: Parts) -> None:
        signal = draft(status=MemoryStatus.PENDING, tags=frozenset({"auto-captured"}))
        for status in (MemoryStatus.ACTIVE, MemoryStatus.ARCHIVED, MemoryStatus.PENDING):
            known = parts.capture.capture(draft(f"Known as {status}"), PLACE).memory
            known = parts.change(known, status=status)
            again = replace(signal, summary=known.summary)
            assert parts.capture.capture(again, PLACE).memory == known

    def test_the_same_words_by_hand_accept_it(self, parts: Parts) -> None:
        noted = draft(status=MemoryStatus.PENDING, tags=frozenset({"auto-captured"}))
        memory = parts.capture.capture(noted, PLACE).memory
        result = parts.capture.capture(draft(tags=frozenset({"db"})), PLACE)
        assert (result.created, result.memory.status) == (False, MemoryStatus.ACTIVE)
        assert result.memory.tags == {"auto-captured", "db"}
        assert result.warning is not None
        assert "is accepted now" in result.warning
        assert parts.waiting() == [memory.key]

    def test_private_parts_are_not_stored(self, parts: Parts) -> None:
        words = "Use the <private>blue harbour</private> queue"
        memory = parts.capture.capture(draft(words, content=words), PLACE).memory
        assert (memory.summary, memory.content) == ("Use the  queue", "Use the  queue")

    def test_the_same_words_by_an_agent_do_not(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(status=MemoryStatus.PENDING), PLACE).memory
        result = parts.capture.capture(draft(), PLACE, by_user=False)
        assert (result.created, result.memory) == (False, memory)
        assert "awaits the user's review" in (result.warning or "")
        assert parts.memories.get(memory.key) == memory


class TestTheSameAgain:
    def test_it_is_told_and_nothing_is_written(self, parts: Parts) -> None:
        parts.capture.capture(draft(), PLACE)
        result = parts.at(Millis(NOW + 5)).capture(draft(), PLACE)
        assert not result.created
        assert result.memory.updated_ms == NOW
        assert result.warning is not None
        assert "already captured at 2026-06-10" in result.warning
        assert len(parts.waiting()) == 1
        assert parts.told == 1

    def test_new_tags_are_added(self, parts: Parts) -> None:
        parts.capture.capture(draft(tags=frozenset("a")), PLACE)
        result = parts.capture.capture(draft(tags=frozenset("b")), PLACE)
        assert result.memory.tags == frozenset("ab")
        assert result.memory.updated_ms > NOW
        assert "tags were added" in str(result.warning)
        assert len(parts.waiting()) == 2

    def test_more_tags_than_a_memory_may_have_are_refused(self, parts: Parts) -> None:
        many = frozenset(f"tag {number}" for number in range(memories.MAX_TAGS))
        parts.capture.capture(draft(tags=many), PLACE)
        with pytest.raises(InvalidInput, match="51 tags"):
            parts.capture.capture(draft(tags=frozenset({"one more"})), PLACE)

    def test_an_archived_one_is_active_again(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(), PLACE).memory
        parts.change(memory, status=MemoryStatus.ARCHIVED, superseded_by="decisions:0123456789ab:0")
        result = parts.capture.capture(draft(), PLACE)
        assert (result.memory.status, result.memory.superseded_by) == (MemoryStatus.ACTIVE, "")
        assert "active again" in str(result.warning)

    def test_a_resolved_one_stays_so(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(), PLACE).memory
        resolved = parts.change(memory, status=MemoryStatus.RESOLVED)
        assert parts.capture.capture(draft(), PLACE).memory == resolved

    def test_what_was_forgotten_is_refused(self, parts: Parts) -> None:
        memory = parts.capture.capture(draft(), PLACE).memory
        gone = memories.build_tombstone(memory, NOW)
        assert parts.memories.write([MemoryChange(memory, gone, None)]) == [True]
        with pytest.raises(InvalidInput, match="was forgotten"):
            parts.capture.capture(draft(), PLACE)
        assert parts.memories.get(memory.key) == gone

    def test_in_another_domain_it_is_another(self, parts: Parts) -> None:
        parts.capture.capture(draft(), PLACE)
        elsewhere = MemoryLocation(domain=Domain("user"), home=Home("/user.git"))
        assert parts.capture.capture(draft(), elsewhere).created


class TestSecrets:
    @pytest.mark.parametrize(
        "given",
        [
            draft(f"Token {TOKEN}"),
            draft(content=f"export GITHUB_TOKEN={TOKEN}\n"),
            draft(spec=TOKEN),
            draft(tags=frozenset({TOKEN})),
        ],
    )
    def test_they_are_nowhere_in_what_is_kept(self, parts: Parts, given: Draft) -> None:
        result = parts.capture.capture(given, PLACE)
        assert TOKEN not in repr(result)
        assert "[REDACTED:" in repr(result.memory)
        assert "a secret was removed" in str(result.warning)
        again = parts.capture.capture(given, PLACE)
        assert (again.created, again.memory) == (False, result.memory)

    def test_a_private_key_is_refused(self, parts: Parts) -> None:
        with pytest.raises(ContentBlocked):
            parts.capture.capture(draft(content=PRIVATE_KEY), PLACE)
        assert parts.waiting() == []

    def test_what_stands_for_a_secret_may_be_longer_than_it(self, parts: Parts) -> None:
        summary = f"{'x' * 50} {TOKEN}"[: memories.MAX_SUMMARY_CHARS]
        saved = parts.capture.capture(draft(summary), PLACE).memory
        assert len(saved.summary) <= memories.MAX_SUMMARY_CHARS


class TestRelations:
    def test_what_is_not_here_is_told(self, parts: Parts) -> None:
        there = parts.capture.capture(draft("There"), PLACE).memory
        missing = "decisions:0123456789ab:0"
        result = parts.capture.capture(
            draft(relates_to=(there.id, there.urn, missing, "decisions:of-another-tool:0")), PLACE
        )
        assert result.warning is not None
        assert missing in result.warning
        assert "of-another-tool" in result.warning
        assert there.id not in result.warning
        assert there.urn not in result.warning
