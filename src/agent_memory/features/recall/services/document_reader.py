"""Read the records of the store as documents, for the indexes and for search hits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import (
    SEVERAL,
    Document,
    DocumentKey,
    DocumentKind,
    Owner,
)
from agent_memory.features.index.model.queries import Hit, IndexHit
from agent_memory.features.knowledge.model import fact_documents
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.outbox import (
    EventChanged,
    FactChanged,
    MemoryChanged,
    OutboxEntry,
    SegmentChanged,
)
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.memories.model import memories, memory_documents
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.ports import Memories
from agent_memory.features.toc.model import segments
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.toc import Bullet
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal, Role
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, MemoryKey, Millis, Position, SessionId

_PAGE = 1_000
_SAME_MOMENT = 100  # segments of one session that may start in the same millisecond
_BEGINNING = Position(at_ms=Millis(0), event_id=EventId(""))


@dataclass(frozen=True, slots=True)
class DocumentReader:
    log: EventLog
    toc: TocReader
    memories: Memories
    knowledge: KnowledgeStore

    def read_owned(self, entries: Iterable[OutboxEntry]) -> dict[Owner, list[Document]]:
        """Return the documents that the records behind these entries hold now; none where a
        record is gone."""
        found: dict[Owner, list[Document]] = {}
        places: list[Position] = []
        for entry in dict.fromkeys(entries):
            match entry:
                case EventChanged(at=at):
                    found[documents.event_owner(at.event_id)] = []
                    places.append(at)
                case SegmentChanged(session_id=session_id, first=first):
                    owner, held = self._segment(session_id, first)
                    found[owner] = held
                case MemoryChanged(key=key):
                    memory = self.memories.get(key)
                    found[documents.memory_owner(key)] = (
                        [] if memory is None else memory_documents.from_memory(memory)
                    )
                case FactChanged(id=name):
                    (fact,) = self.knowledge.get(Fact, [name])
                    found[documents.fact_owner(name)] = (
                        [] if fact is None else [fact_documents.from_fact(fact)]
                    )
        for event in self.log.get_at(places):
            found[documents.event_owner(event.event_id)] = documents.from_event(event)
        return found

    def list_entries(self) -> Iterator[list[OutboxEntry]]:
        """Yield entries for every record, in batches: events by time, segments, memories, facts."""
        sessions: dict[SessionId, None] = {}
        for page in paging.iter_between(self.log):
            sessions |= dict.fromkeys(event.session_id for event in page.events)
            yield [EventChanged(at=event.position) for event in page.events]
        for session_id in sessions:
            start = _BEGINNING
            while held := self.toc.list_segments(session_id, start, limit=_PAGE):
                yield [SegmentChanged(session_id=session_id, first=s.first) for s in held]
                start = held[-1].first.next
        for domain in self.memories.list_domains():
            last: MemoryKey | None = None
            while kept := self.memories.list_domain(domain, after=last, limit=_PAGE):
                yield [MemoryChanged(key=memory.key) for memory in kept]
                last = kept[-1].key
        name = ""
        while facts := self.knowledge.list_after(Fact, name, limit=_PAGE):
            yield [FactChanged(id=fact.id) for fact in facts]
            name = facts[-1].id

    def read(self, found: Sequence[IndexHit]) -> dict[DocumentKey, Document]:
        """Return the documents that still exist, with their metadata."""
        events = [each for each in found if each.kind is DocumentKind.EVENT]
        nodes = [each for each in found if each.kind is DocumentKind.SEGMENT]
        grips = [each for each in found if each.kind is DocumentKind.GRIP]
        read = [
            *(
                document
                for event in self.log.get_at([each.position for each in events])
                for document in documents.from_event(event)
            ),
            *(
                documents.from_segment(node, each.session)
                for each, node in zip(
                    nodes, self.toc.get_nodes([NodeId(each.id) for each in nodes]), strict=True
                )
                if node is not None
            ),
            *self._grips(grips),
            *(
                document
                for each in found
                if each.kind is DocumentKind.MEMORY
                and (memory := self.get_memory(each.id)) is not None
                for document in memory_documents.from_memory(memory)
            ),
            *(
                fact_documents.from_fact(fact)
                for fact in self.knowledge.get(
                    Fact, [each.id for each in found if each.kind is DocumentKind.FACT]
                )
                if fact is not None
            ),
        ]
        return {document.key: document for document in read}

    def read_uris(self, uris: Iterable[str]) -> dict[str, Document]:
        """Return the documents of these URIs; without those that do not exist, or no more."""
        found: list[IndexHit] = []
        for uri in dict.fromkeys(uris):
            kind, name = documents.parse_document_uri(uri)
            at_ms = Millis(0)
            if kind is DocumentKind.EVENT:  # read by its position
                event = self.log.get(EventId(name))
                at_ms = at_ms if event is None else event.at_ms
            if kind is not None:
                found.append(IndexHit(kind, name, at_ms, "", 0.0))
        return {documents.build_uri(each): each for each in self.read(found).values()}

    def locate_hit(self, hit: Hit) -> Hit:
        """Return the hit with its URI and its place in the table of contents."""
        document = hit.document
        hit = replace(hit, uri=documents.build_uri(document))
        session_id = SessionId(document.session)
        if document.kind is DocumentKind.EVENT:
            at = Position(at_ms=document.at_ms, event_id=EventId(document.id))
            before = self.toc.list_segments(session_id, at, limit=1, reverse=True)
            node_ids = [each.node_id for each in before if at.order <= each.last.order]
            return replace(hit, event_id=document.id, node_id=next(iter(node_ids), ""))
        if document.kind is DocumentKind.GRIP:
            (grip,) = self.toc.get_grips([document.id])
            if grip is None:
                return hit
            return replace(
                hit,
                document=self._beside(document, grip.event_id_start),
                event_id=grip.event_id_start,
                last_event_id=grip.event_id_end,
                grip_id=grip.grip_id,
                node_id=grip.node_id,
            )
        if document.kind is DocumentKind.SEGMENT:
            segment = self._of_node(session_id, document.at_ms, document.id)
            if segment is None:  # it is gone; a day or a longer period has no session
                return hit if session_id else replace(hit, node_id=document.id)
            return replace(
                hit,
                document=self._beside(document, segment.first.event_id),
                event_id=segment.first.event_id,
                last_event_id=segment.last.event_id,
                node_id=segment.node_id,
            )
        if document.kind is DocumentKind.MEMORY:
            memory = self.get_memory(document.id)
            return (
                hit if memory is None else replace(hit, event_id=memory.event_id, memory=memory.key)
            )
        return hit

    def list_bullets(self, node_id: str) -> tuple[Bullet, ...]:
        (node,) = self.toc.get_nodes([NodeId(node_id)])
        return () if node is None else node.bullets

    def get_memory(self, urn: str) -> Memory | None:
        """Return the memory of this URN as the index has it."""
        name = memories.parse_urn(urn)
        if name.domain is None or name.namespace is None:
            return None
        alike = self.memories.find_by_digest(name.domain, name.namespace, name.hex)
        return next((each for each in alike if each.index == name.index), None)

    def _segment(self, session_id: SessionId, first: Position) -> tuple[Owner, list[Document]]:
        """Return the documents of the segment that starts here, and its owner."""
        node_id = segments.build_node_id(session_id, first)
        owner = documents.segment_owner(node_id)
        (node,) = self.toc.get_nodes([node_id])
        if node is None:
            return owner, []
        grips = [grip for grip in self.toc.get_grips(sorted(node.grip_ids())) if grip is not None]
        places = [Position(at_ms=grip.at_ms, event_id=grip.event_id_start) for grip in grips]
        about = {each.event_id: each.metadata for each in self.log.get_at([first, *places])}
        if first.event_id not in about:
            return owner, []
        held = [
            documents.apply_metadata(
                documents.from_segment(node, session_id), about[first.event_id]
            )
        ]
        held += [
            documents.apply_metadata(
                documents.from_grip(grip, node, session_id), about.get(grip.event_id_start, {})
            )
            for grip in grips
        ]
        if not self._is_of_one_project(node_id, held[0].project):
            held = [replace(each, domain=SEVERAL) for each in held]
        return owner, held

    def _is_of_one_project(self, node_id: NodeId, project: str) -> bool:
        """Tell whether who sees this project alone sees the node. On a daemon of one's own, where
        nothing is hidden, everyone does."""
        try:
            caller = Principal(role=Role.READER, projects=frozenset({project}))
        except InvalidInput:  # no caller can be limited to a project of this name
            return not project
        with access.work_for(caller):
            (node,) = self.toc.get_nodes([node_id])
        return node is not None

    def _grips(self, found: Sequence[IndexHit]) -> Iterator[Document]:
        grips = self.toc.get_grips([each.id for each in found])
        wanted = sorted({grip.node_id for grip in grips if grip is not None})
        nodes = dict(zip(wanted, self.toc.get_nodes(wanted), strict=True))
        for each, grip in zip(found, grips, strict=True):
            node = None if grip is None else nodes[grip.node_id]
            if grip is not None and node is not None:
                yield documents.from_grip(grip, node, each.session)

    def _of_node(self, session_id: SessionId, start: Millis, node_id: str) -> Segment | None:
        place = Position(at_ms=start, event_id=EventId(""))
        found = self.toc.list_segments(session_id, place, limit=_SAME_MOMENT)
        return next((each for each in found if each.node_id == node_id), None)

    def _beside(self, document: Document, event_id: EventId) -> Document:
        event = self.log.get(event_id)
        return document if event is None else documents.apply_metadata(document, event.metadata)
