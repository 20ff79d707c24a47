"""Auto-capture: signals of a session are captured once, and never again after forgetting."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from agent_memory.features.hooks.model import signals
from agent_memory.features.hooks.services.auto_capture import MAX_CAPTURES, TAG, AutoCapture
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.memory_store import StoredMemories
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.kernel.ids import Domain, Millis
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import TIMEOUT
from tests.recall_parts import MINUTE, NOW, FixedClock, build_recall, make_event

PLACE = MemoryLocation(domain=Domain("project:shop"), home=Home("/shop/.git"), commit="a" * 40)
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
THRESHOLD = 0.8


@cache
def _secrets() -> Re2Filter:
    """Build the filter once: it takes longer than most tests."""
    return Re2Filter(mode="redact")


class Thinking:
    """Auto-capture with its own store."""

    def __init__(self, store: OrderedStore, folder: Path) -> None:
        self.parts = build_recall(store, folder, None)
        self.log = StoredEventLog(store)
        self.memories = StoredMemories(store)
        self.reflection = self._build()
        self._times = count(NOW - 600 * MINUTE, 1000)

    def _build(self) -> AutoCapture:
        capture = Capture(
            memories=self.memories,
            log=self.log,
            secrets=_secrets(),
            clock=FixedClock(),
            on_capture=lambda: None,
        )
        return AutoCapture(log=self.log, capture=capture, recall=self.parts.recall)

    def hear(self, words: str, role: str = "user", session: str = "talk") -> str:
        """Record a message and return the event's id."""
        event = make_event(words, next(self._times), role=role, session=session)
        self.log.append([event]).result(TIMEOUT)
        return event.event_id

    def look_back(self, threshold: float = THRESHOLD, session: str = "talk") -> list[Memory]:
        return self.reflection.capture_session(session, PLACE, threshold)

    def change(self, memory: Memory, status: MemoryStatus) -> Memory:
        changed = memories.update_fields(memory, NOW, status=status)
        assert self.memories.write([MemoryChange(memory, changed, None)]) == [True]
        return changed


@pytest.fixture
def thinking(store: OrderedStore, tmp_path: Path) -> Iterator[Thinking]:
    found = Thinking(store, tmp_path)
    yield found
    found.parts.close()


class TestLookingBack:
    def test_what_was_marked_is_captured_with_where_it_was_said(self, thinking: Thinking) -> None:
        thinking.hear("Good morning.")
        event = thinking.hear("[decision] Use PostgreSQL because of JSONB support")
        (found,) = thinking.look_back()
        assert (found.namespace, found.summary) == ("decisions", "Use PostgreSQL")
        assert (found.event_id, found.session_id) == (event, "talk")
        assert (found.domain, found.commit) == (PLACE.domain, PLACE.commit)
        assert TAG in found.tags
        assert thinking.memories.get(found.key) == found

    def test_once(self, thinking: Thinking) -> None:
        thinking.hear("[decision] Use PostgreSQL")
        assert len(thinking.look_back()) == 1
        assert thinking.look_back() == []
        thinking.hear("[decision] Use PostgreSQL")
        assert thinking.look_back() == []

    def test_not_what_the_agent_captured_in_its_own_words(self, thinking: Thinking) -> None:
        thinking.hear("[decision] We use Valkey, not Redis, for the pier cache")
        thinking.hear("[decision] The pier closes at six in winter")
        draft = Draft(namespace="decisions", summary="Use Valkey instead of Redis, pier cache")
        thinking.reflection.capture.capture(draft, PLACE)
        thinking.parts.keep_up()
        assert [each.summary for each in thinking.look_back()] == [
            "The pier closes at six in winter"
        ]

    def test_what_was_captured_before_it_was_said_is_another(self, thinking: Thinking) -> None:
        capture = thinking.reflection.capture
        early = replace(capture, clock=FixedClock(Millis(NOW - 900 * MINUTE)))
        draft = Draft(namespace="decisions", summary="Use Valkey instead of Redis, pier cache")
        early.capture(draft, PLACE)
        thinking.parts.keep_up()
        thinking.hear("[decision] We use Valkey, not Redis, for the pier cache")
        assert len(thinking.look_back()) == 1

    def test_only_with_enough_confidence(self, thinking: Thinking) -> None:
        words = "We decided to keep the queue in memory."
        (signal,) = signals.detect(words)
        assert not signal.marked
        thinking.hear(words)
        assert thinking.look_back(signal.confidence + 0.01) == []
        assert len(thinking.look_back(signal.confidence)) == 1

    def test_an_agents_word_counts_for_less(self, thinking: Thinking) -> None:
        """An agent writes so about plans that no one has agreed to."""
        words = "We decided to keep the queue in memory."
        (signal,) = signals.detect(words)
        thinking.hear(words, role="assistant")
        assert thinking.look_back(signal.confidence) == []
        assert len(thinking.look_back(signal.confidence - 0.15)) == 1

    def test_but_its_markers_count(self, thinking: Thinking) -> None:
        thinking.hear("[learned] The index is rebuilt at night", role="assistant")
        assert [each.namespace for each in thinking.look_back()] == ["learnings"]

    def test_tools_say_nothing(self, thinking: Thinking) -> None:
        thinking.hear("[decision] Use PostgreSQL", role="tool")
        assert thinking.look_back() == []

    def test_each_session_is_its_own(self, thinking: Thinking) -> None:
        thinking.hear("[decision] Use PostgreSQL", session="other")
        assert thinking.look_back() == []

    def test_an_empty_session(self, thinking: Thinking) -> None:
        assert thinking.look_back() == []

    def test_no_more_than_anyone_reads(self, thinking: Thinking) -> None:
        for number in range(MAX_CAPTURES + 5):
            thinking.hear(f"[decision] Use port {8000 + number} for the service")
        assert len(thinking.look_back()) == MAX_CAPTURES

    def test_what_was_captured_before_takes_no_place(self, thinking: Thinking) -> None:
        for number in range(MAX_CAPTURES):
            thinking.hear(f"[decision] Use port {8000 + number} for the service")
        thinking.look_back()
        thinking.hear("[decision] Use PostgreSQL")
        assert [each.summary for each in thinking.look_back()] == ["Use PostgreSQL"]

    def test_the_latest_of_a_long_session(self, thinking: Thinking) -> None:
        """Earlier compactions have read the earlier events."""
        events = [
            make_event(f"Line {number}", NOW - 600 * MINUTE + number, session="long")
            for number in range(450)
        ]
        events[0] = make_event("[decision] Use MySQL", events[0].at_ms, session="long")
        events[-1] = make_event("[decision] Use PostgreSQL", events[-1].at_ms, session="long")
        thinking.log.append(events).result(TIMEOUT)
        found = thinking.look_back(session="long")
        assert [each.summary for each in found] == ["Use PostgreSQL"]


class TestReview:
    def test_everything_awaits_review(self, thinking: Thinking) -> None:
        thinking.hear("[decision] Use PostgreSQL")
        (heard,) = thinking.look_back()
        told = thinking.reflection.capture_summary("All done", ("Use JWT",), PLACE, "talk")
        assert all(each.is_pending and each.session_id == "talk" for each in (heard, *told))

    def test_unless_it_is_switched_off(self, thinking: Thinking) -> None:
        thinking.hear("[decision] Use PostgreSQL")
        active = MemoryStatus.ACTIVE
        found = [
            *thinking.reflection.capture_session("talk", PLACE, THRESHOLD, status=active),
            *thinking.reflection.capture_summary("All done", (), PLACE, status=active),
        ]
        assert [each.status for each in found] == [active, active]


class TestWhatIsGone:
    @pytest.mark.parametrize("status", [MemoryStatus.ARCHIVED, MemoryStatus.TOMBSTONE])
    def test_it_is_not_revived(self, thinking: Thinking, status: MemoryStatus) -> None:
        thinking.hear("[decision] Use PostgreSQL")
        (found,) = thinking.look_back()
        changed = thinking.change(found, status)
        assert thinking.look_back() == []
        assert thinking.memories.get(found.key) == changed

    @pytest.mark.parametrize("status", [MemoryStatus.ARCHIVED, MemoryStatus.TOMBSTONE])
    def test_nor_by_what_an_agent_tells(self, thinking: Thinking, status: MemoryStatus) -> None:
        (found,) = thinking.reflection.capture_summary("", ("Use JWT",), PLACE)
        changed = thinking.change(found, status)
        assert thinking.reflection.capture_summary("", ("Use JWT",), PLACE) == []
        assert thinking.memories.get(found.key) == changed


class TestWhatAnAgentTells:
    def test_its_decisions_and_its_summary(self, thinking: Thinking) -> None:
        stored = thinking.reflection.capture_summary(
            "User implemented authentication", ("Use JWT", "Store tokens in cookies"), PLACE
        )
        assert [(each.namespace, each.summary) for each in stored] == [
            ("decisions", "Use JWT"),
            ("decisions", "Store tokens in cookies"),
            ("progress", "User implemented authentication"),
        ]
        assert all(TAG in each.tags for each in stored)
        assert thinking.reflection.capture_summary("", ("Use JWT",), PLACE) == []

    def test_a_long_one_is_a_summary_and_its_content(self, thinking: Thinking) -> None:
        words = "They spoke of the lamp.\n" * 500
        (stored,) = thinking.reflection.capture_summary(words, (), PLACE)
        assert len(stored.summary) <= memories.MAX_SUMMARY_CHARS
        assert stored.summary.endswith("...")
        assert stored.content.strip() == words.strip()

    @pytest.mark.parametrize("words", ["", "  \n", "<memory_context>old</memory_context>"])
    def test_nothing_is_no_memory(self, thinking: Thinking, words: str) -> None:
        assert thinking.reflection.capture_summary(words, (words,), PLACE) == []

    def test_what_we_said_is_not_kept(self, thinking: Thinking) -> None:
        (stored,) = thinking.reflection.capture_summary(
            "Done. <auto_captured>x</auto_captured>", (), PLACE
        )
        assert stored.summary == "Done."

    def test_strange_words(self, thinking: Thinking) -> None:
        stored = thinking.reflection.capture_summary(
            "a \ud800 b \0 c", ("\x07 bell", "\u2028"), PLACE
        )
        assert all(each.summary.encode() for each in stored)

    def test_secrets_are_redacted(self, thinking: Thinking) -> None:
        (stored,) = thinking.reflection.capture_summary(f"The key is {TOKEN}", (), PLACE)
        assert TOKEN not in f"{stored.summary} {stored.content}"
        thinking.hear(f"[decision] Use the key {TOKEN} for the shop")
        (heard,) = thinking.look_back()
        assert TOKEN not in f"{heard.summary} {heard.content}"


class TestSaidBefore:
    def test_the_same_line_with_other_details_is_the_same(self, thinking: Thinking) -> None:
        """The agent captured the suggested signal itself, without the reason."""
        by_hand = Draft(namespace="decisions", summary="Use PostgreSQL")
        thinking.reflection.capture.capture(by_hand, PLACE)
        thinking.hear("[decision] Use PostgreSQL because of JSONB support")
        assert thinking.look_back() == []

    def test_in_another_project_it_is_another(self, thinking: Thinking) -> None:
        elsewhere = MemoryLocation(domain=Domain("project:mill"), home=Home("/mill/.git"))
        by_hand = Draft(namespace="decisions", summary="Use PostgreSQL")
        thinking.reflection.capture.capture(by_hand, elsewhere)
        thinking.hear("[decision] Use PostgreSQL because of JSONB support")
        assert len(thinking.look_back()) == 1
