"""Hold conversations back until they may leave.

What was noted in a session awaits the user's review, and its words are those of the conversation:
whoever reads the one has the other. So a conversation leaves when its session is over, when what is
noted at its end has been noted, and when nothing that was noted in it awaits review.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model import metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.memories.ports import Memories, Outlines
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import HeldConversation, HeldConversations
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import Clock

OVER_MS = 86_400_000  # after which a session without an end counts as over
_PAGE = 500
_MOST_PENDING = 100_000
_END = Position(at_ms=Millis(MAX_MILLIS), event_id=EventId("\U0010ffff"))


@dataclass(frozen=True, slots=True)
class Conversations:
    held: HeldConversations
    log: EventLog
    memories: Memories
    outlines: Outlines
    clock: Clock

    def hold(self, events: Sequence[Event], scope: SharedScope) -> None:
        """Note the conversations of those events that may leave later."""
        first: dict[SessionId, Millis] = {}
        for event in events:
            if scope.sends_event(event):
                known = first.get(event.session_id, event.at_ms)
                first[event.session_id] = min(known, event.at_ms)
        if first:
            self.held.hold(first, self.clock.now())

    def iter_due(self, delay_ms: int) -> Iterator[HeldConversation]:
        """Yield those that may leave now."""
        unreviewed: Collection[str] | None = None  # not read while nothing is held
        after = ""
        while found := self.held.list_held(after, limit=_PAGE):
            if unreviewed is None:
                unreviewed = self.list_unreviewed()
            after = found[-1].session_id
            for each in found:
                if self._is_due(each, delay_ms, unreviewed):
                    yield each

    def iter_events(self, held: HeldConversation) -> Iterator[Event]:
        """Yield the events that have not left, in order."""
        start = Position(at_ms=held.from_ms, event_id=EventId(""))
        yield from paging.iter_session(self.log, held.session_id, start)

    def count(self, most: int) -> int:
        return len(self.held.list_held("", limit=most))

    def list_unreviewed(self) -> Collection[str]:
        """Return the sessions in which something was noted that awaits review."""
        keys = self.outlines.find_newest(
            lambda outline: outline.status is MemoryStatus.PENDING, limit=_MOST_PENDING
        )
        found: set[str] = set()
        for key in keys:
            memory = self.memories.get(key)
            if memory is None or not memory.is_pending:
                continue
            found.add(metadata.get_main_session(memory.session_id))
            event = self.log.get(EventId(memory.event_id)) if memory.event_id else None
            if event is not None:
                found.add(metadata.get_main_session(event.session_id))
        return found

    def _is_due(self, held: HeldConversation, delay_ms: int, unreviewed: Collection[str]) -> bool:
        now = self.clock.now()
        if now - held.since_ms < delay_ms:
            return False
        main = SessionId(metadata.get_main_session(held.session_id))
        if main in unreviewed:
            return False
        # A subagent's session ends with the one that it belongs to.
        last = next(filter(None, map(self._find_last, (main, held.session_id))), None)
        if last is None or last.type is EventType.SESSION_END:
            return True
        return now - last.at_ms >= OVER_MS

    def _find_last(self, session_id: SessionId) -> Event | None:
        page = self.log.list_session(session_id, after=_END, limit=1, reverse=True)
        return page.events[0] if page.events else None
