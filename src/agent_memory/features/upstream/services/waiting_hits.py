"""Leave out of answers what waits to be erased."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Hit, RecallResult
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.ports import PendingErasures
from agent_memory.kernel import access
from agent_memory.kernel.ids import EventId, KnowledgeId, Millis

_PAGE = 500


@dataclass(frozen=True, slots=True)
class WaitingHits:
    """Hits that wait to be erased. Other machines no longer find them: the one that asked has no
    copy any more, and would be given its words again."""

    erasures: PendingErasures
    log: EventLog

    def leave_out(self, answer: RecallResult) -> RecallResult:
        """Return what a person over the network is given; who asks on this machine owns it, and
        sees all. The total still counts those of other pages."""
        caller = access.get_caller()
        if caller is None or not caller.person or not self.erasures.list_pending(limit=1):
            return answer
        hits = tuple(hit for hit in answer.hits if not self.has(hit))
        return replace(answer, hits=hits, total=answer.total - len(answer.hits) + len(hits))

    def has_record(self, record: Event | Memory | Fact) -> bool:
        match record:
            case Event():
                return self.erasures.has(record.event_id)
            case Fact():
                stone = FactTombstone(id=record.id, scope=record.scope, at_ms=Millis(0))
                return self.erasures.has(stone)
            case Memory():
                return self.erasures.has(record.key)

    def has(self, hit: Hit) -> bool:
        document = hit.document
        match document.kind:
            case DocumentKind.EVENT:
                return self.erasures.has(EventId(document.id))
            case DocumentKind.FACT:
                scope = scopes.build_domain(document.project)
                name = KnowledgeId(document.id)
                return self.erasures.has(FactTombstone(id=name, scope=scope, at_ms=Millis(0)))
            case DocumentKind.MEMORY:
                return hit.memory is not None and self.erasures.has(hit.memory)
            case DocumentKind.SEGMENT | DocumentKind.GRIP:
                return any(map(self.erasures.has, self._list_events(hit)))

    def _list_events(self, hit: Hit) -> Iterator[EventId]:
        """Yield the events whose words a segment or an excerpt has."""
        first = self.log.get(EventId(hit.event_id)) if hit.event_id else None
        if first is None:
            return
        yield first.event_id
        after = first.position
        while first.event_id != hit.last_event_id:
            page = self.log.list_session(first.session_id, after=after, limit=_PAGE)
            for event in page.events:
                yield event.event_id
                if event.event_id == hit.last_event_id:
                    return
                after = event.position
            if not page.events:
                return
