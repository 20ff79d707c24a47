"""The side of a team's server: search and open for a person's machines what they may see."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    TEAM,
    Hit,
    Query,
    RecallResult,
)
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories as memory_model
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import Memories
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.upstream.model import names
from agent_memory.features.upstream.model.records import MACHINE
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import Origin, TakenRecords
from agent_memory.features.upstream.services.receiving import Sender
from agent_memory.features.upstream.services.waiting_hits import WaitingHits
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import USER, EventId, KnowledgeId, Position

SEARCHED_KINDS = frozenset({DocumentKind.EVENT, DocumentKind.MEMORY, DocumentKind.FACT})
MAX_AROUND = 50
_SINGLY = 4  # projects that are searched one by one; more are searched at once


@dataclass(frozen=True, slots=True)
class TeamSearch:
    recall: Recall
    log: EventLog
    memories: Memories
    knowledge: KnowledgeStore
    taken: TakenRecords
    waiting: WaitingHits

    def search(self, query: Query, scope: SharedScope, sender: Sender) -> RecallResult:
        """Return the best hits in a scope, each with its person."""
        visible = sender.narrow(scope)
        limit = min(query.limit or DEFAULT_LIMIT, MAX_LIMIT)
        hits: dict[str, Hit] = {}
        warnings: list[str] = []
        certain = False
        for part in self._split(query, visible, sender):
            answer = self.recall.search(part, counted=False)
            warnings += [answer.warning] if answer.warning else []
            certain = certain or (answer.certain and bool(answer.hits))
            for hit in answer.hits:
                if self._is_visible(hit, visible, sender) and not self.waiting.has(hit):
                    hits.setdefault(hit.document.key, hit)
        best = sorted(hits.values(), key=lambda hit: -hit.score)[:limit]
        authors = self._find_authors(best)
        return RecallResult(
            hits=tuple(self._mark(hit, authors, sender) for hit in best),
            total=len(hits),
            warning=warnings[0] if warnings else None,
            certain=certain,
        )

    def open(self, uri: str, scope: SharedScope, sender: Sender, *, around: int) -> TeamRecord:
        """Return the record of a URI, as its owner's machine knows it. Raises NotFound, also for
        what waits to be erased."""
        opened = self._open(uri, sender.narrow(scope), sender, around)
        record = opened.record
        if isinstance(record, Memory):
            record = names.to_server_memory(record, sender.person)
        if self.waiting.has_record(record):
            raise NotFound(f"{uri[:200]!r} is to be erased: see `memory team waiting`")
        return opened

    def _open(self, uri: str, visible: SharedScope, sender: Sender, around: int) -> TeamRecord:
        kind, name = documents.parse_document_uri(uri)
        match kind:
            case DocumentKind.EVENT:
                return self._open_event(EventId(name), visible, min(around, MAX_AROUND))
            case DocumentKind.FACT:
                return self._open_fact(KnowledgeId(name), visible)
            case DocumentKind.MEMORY:
                return self._open_memory(uri, visible, sender)
            case _:
                raise NotFound(f"nothing that you may see has the URI {uri[:200]!r}")

    def _split(self, query: Query, scope: SharedScope, sender: Sender) -> Iterator[Query]:
        """Yield a query for each project, and one for the person's own memories."""
        kinds = (query.scope.kinds or SEARCHED_KINDS) & SEARCHED_KINDS
        asked = query.scope
        if asked.session:
            owned = names.split_session(asked.session)[1]
            session = (
                asked.session if owned else names.qualify_session(asked.session, sender.person)
            )
            asked = replace(asked, session=session)
        own = names.build_private_domain(sender.person)
        wanted = frozenset(own if name == USER else name for name in asked.domains)
        asked = replace(asked, domains=wanted, kinds=kinds)
        base = replace(query, scope=asked, offset=0)
        projects = [name for name in sorted(scope.projects) if asked.project in ("", name)]
        if len(projects) > _SINGLY:
            yield replace(base, limit=MAX_LIMIT)
        else:
            for name in projects:
                yield replace(base, scope=replace(asked, project=name))
        is_asked = not wanted or own in wanted
        if USER in scope.names and is_asked and not asked.project and DocumentKind.MEMORY in kinds:
            private = replace(
                asked, domains=frozenset({own}), kinds=frozenset({DocumentKind.MEMORY})
            )
            yield replace(base, scope=private)

    def _is_visible(self, hit: Hit, scope: SharedScope, sender: Sender) -> bool:
        document = hit.document
        if document.kind is DocumentKind.MEMORY:
            if document.domain == names.build_private_domain(sender.person):
                return USER in scope.names
            return document.domain != USER and scope.admits_domain(document.domain)
        return document.project in scope.projects

    def _find_authors(self, hits: Sequence[Hit]) -> dict[str, str]:
        """Return who recorded the events among hits, by their ids. The server has signed it: anyone
        may choose a session that ends in the name of another."""
        places = [
            Position(at_ms=hit.document.at_ms, event_id=EventId(hit.document.id))
            for hit in hits
            if hit.document.kind is DocumentKind.EVENT
        ]
        return {each.event_id: each.metadata.get(PERSON, "") for each in self.log.get_at(places)}

    def _mark(self, hit: Hit, authors: Mapping[str, str], sender: Sender) -> Hit:
        """Return a hit with its person, and a private memory as its own machine names it."""
        document = hit.document
        match document.kind:
            case DocumentKind.EVENT:
                return replace(hit, origin=TEAM, person=authors.get(document.id, ""))
            case DocumentKind.FACT:
                (origin,) = self.taken.get_fact_origins([KnowledgeId(document.id)])
                person = "" if origin is None else origin.person
            case _:
                memory = self.recall.documents.get_memory(hit.uri)
                (person,) = [""] if memory is None else self.taken.find_people([memory])
        if document.domain == names.build_private_domain(sender.person):
            urn = document.id.replace(f"//{document.domain}/", f"//{USER}/", 1)
            document = replace(document, domain=USER, id=urn)
            hit = replace(hit, document=document, uri=urn)
        return replace(hit, origin=TEAM, person=person)

    def _open_event(self, event_id: EventId, scope: SharedScope, around: int) -> TeamRecord:
        event = self.log.get(event_id)
        if event is None or not scope.admits_event(event):
            raise NotFound(f"there is no event {event_id[:200]!r} that you may see")

        def list_near(*, reverse: bool) -> tuple[Event, ...]:
            if not around:
                return ()
            page = self.log.list_session(
                event.session_id, after=event.position, limit=around, reverse=reverse
            )
            return tuple(filter(scope.admits_event, page.events))

        return TeamRecord(
            record=event,
            person=event.metadata.get(PERSON, ""),
            machine=event.metadata.get(MACHINE, ""),
            before=list_near(reverse=True)[::-1],
            after=list_near(reverse=False),
        )

    def _open_fact(self, name: KnowledgeId, scope: SharedScope) -> TeamRecord:
        (fact,) = self.knowledge.get(Fact, [name])
        if fact is None or not scope.admits_fact(fact):
            raise NotFound(f"there is no fact {name[:200]!r} that you may see")
        (origin,) = self.taken.get_fact_origins([fact.id])
        return _with_origin(fact, origin)

    def _open_memory(self, urn: str, scope: SharedScope, sender: Sender) -> TeamRecord:
        try:
            reference = memory_model.parse_urn(urn)
        except InvalidInput as exc:
            raise NotFound(str(exc)) from exc
        if reference.domain is None or reference.namespace is None:
            raise NotFound("the URI has no domain")
        domain = reference.domain
        stored = names.build_private_domain(sender.person) if domain == USER else domain
        found = self.memories.find_by_digest(stored, reference.namespace, reference.hex)
        present = [memory for memory in found if memory.status is not MemoryStatus.TOMBSTONE]
        if not present or not scope.admits_domain(domain):
            raise NotFound(f"there is no memory {urn[:200]!r} that you may see")
        (origin,) = self.taken.get_memory_origins([present[0].key])
        return _with_origin(names.to_local_memory(present[0], sender.person), origin)


def _with_origin(record: Memory | Fact, origin: Origin | None) -> TeamRecord:
    if origin is None:
        return TeamRecord(record=record)
    return TeamRecord(record=record, person=origin.person, machine=origin.machine)
