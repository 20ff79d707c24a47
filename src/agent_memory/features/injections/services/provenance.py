"""Provenance: where a record comes from, and when it was given to an agent."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import CONTENTS, GRIPS
from agent_memory.features.injections.model.injections import KEPT, LedgerEntry, LedgerScope
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import AUTO_CAPTURED, Memory, get_family
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.memories.services.editing import MemoryDetails
from agent_memory.features.recall.model.records import OpenedRecord
from agent_memory.features.recall.services.opening import (
    Opened,
    OpenedEvent,
    OpenedFact,
    OpenedGrip,
    OpenedNode,
    OpenedSession,
    Opening,
)
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import PROJECT, EventId, Millis, Position, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOrigin:
    """Where a record comes from. `words` are the events that it was made from, if they are known.

    `uris` are its own URI and those of its parts: an agent gets a segment by its grips.
    """

    uris: tuple[str, ...]
    kind: str
    title: str
    at_ms: Millis
    session_id: str = ""
    project: str = ""
    words: tuple[Event, ...] = ()
    memory: Memory | None = None
    supersedes: tuple[Memory, ...] = ()
    superseded_by: Memory | None = None

    @property
    def uri(self) -> str:
        return self.uris[0]

    @property
    def is_automatic(self) -> bool:
        """Whether it is a memory that was captured without asking."""
        return self.memory is not None and AUTO_CAPTURED in self.memory.tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The origin of a record, how often it was injected, and the last times."""

    origin: RecordOrigin
    count: int
    given: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedRecords:
    """What was made from an event. Forgetting it removes the grips and makes the segment again;
    the memories and facts stay."""

    event: Event
    segment: TocNode | None
    grips: tuple[Grip, ...]
    memories: tuple[Memory, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    opening: Opening
    injections: Injections

    def explain(self, name: str, here: MemoryLocation, *, limit: int) -> Explanation:
        """Explain the record of this name, with at most `limit` of the times it was given.

        Raises NotFound, InvalidInput and AmbiguousName as `Opening.open` does.
        """
        opened = self.opening.open(name, here, around=0, counted=False)
        if isinstance(opened, MemoryDetails):
            origin = self._trace_memory(opened.memory)
        else:
            origin = _trace(opened)
            if isinstance(opened, OpenedFact):
                origin = self._add_words(origin, opened.fact)
        scope = LedgerScope(items=frozenset(origin.uris))
        given = self.injections.list_entries(scope, limit=KEPT).entries
        return Explanation(origin=origin, count=len(given), given=given[:limit])

    def list_derived(self, event_id: str) -> DerivedRecords:
        """List what was made from an event. Raises NotFound."""
        event = self.opening.log.get(EventId(event_id))
        if event is None:
            raise NotFound(f"there is no event {event_id!r}")
        toc, at = self.opening.toc, event.position
        segments = toc.list_segments(event.session_id, at, limit=1, reverse=True)
        has_segment = bool(segments) and at.order <= segments[0].last.order
        nodes = toc.get_nodes([segments[0].node_id]) if has_segment else [None]
        return DerivedRecords(
            event=event,
            segment=nodes[0],
            grips=tuple(toc.find_grips(at)),
            memories=tuple(
                each for each in self.opening.editor.list_all() if each.event_id == event.event_id
            ),
            facts=tuple(self.opening.facts.list_of_event(event.event_id)),
        )

    def _add_words(self, origin: RecordOrigin, fact: Fact) -> RecordOrigin:
        """Add the words of a fact: the event that it names, or else the last in its session before
        it. Where the event is forgotten, no other words stand in for it."""
        log = self.opening.log
        event = log.get(EventId(fact.event_id)) if fact.event_id else None
        if not fact.event_id and fact.session_id:
            at = Position(at_ms=Millis(fact.valued_ms + 1), event_id=EventId(""))
            near = log.list_session(SessionId(fact.session_id), after=at, limit=1, reverse=True)
            event = near.events[0] if near.events else None
        if event is None:
            return replace(origin, session_id=fact.session_id or "")
        return replace(
            origin,
            session_id=event.session_id,
            project=event.metadata.get("project", ""),
            words=(event,),
        )

    def _trace_memory(self, memory: Memory) -> RecordOrigin:
        editor, place = self.opening.editor, MemoryLocation(domain=memory.domain, home=NOWHERE)
        event = self.opening.log.get(EventId(memory.event_id)) if memory.event_id else None
        successor = None
        if memory.superseded_by:
            with suppress(NotFound, InvalidInput):  # it may be forgotten
                successor = editor.find(memory.superseded_by, place)
        return RecordOrigin(
            uris=(memory.urn,),
            kind="memory",
            title=memory.summary,
            at_ms=memory.created_ms,
            session_id=memory.session_id,
            project=place.name if get_family(memory.domain) == PROJECT else "",
            words=() if event is None else (event,),
            memory=memory,
            supersedes=tuple(
                each
                for each in editor.list_all([memory.domain])
                if each.superseded_by in (memory.id, memory.urn)
            ),
            superseded_by=successor,
        )


def _trace(opened: Opened) -> RecordOrigin:
    match opened:
        case OpenedEvent(event=event):
            return RecordOrigin(
                uris=(opened.uri,),
                kind="event",
                title=event.text,
                at_ms=event.at_ms,
                session_id=event.session_id,
                project=event.metadata.get("project", ""),
                words=(event,),
            )
        case OpenedNode(node=node):
            return RecordOrigin(
                uris=(opened.uri, *_list_grips(node)),
                kind=node.level.name.lower(),
                title=node.title,
                at_ms=node.start_ms,
                session_id=node.session,
                project=node.project,
            )
        case OpenedGrip(grip=grip, expansion=expansion):
            words = expansion.excerpt
            return RecordOrigin(
                uris=(opened.uri,),
                kind="grip",
                title=grip.excerpt,
                at_ms=grip.at_ms,
                session_id=words[0].session_id if words else "",
                project=words[0].metadata.get("project", "") if words else "",
                words=words,
            )
        case OpenedSession():
            parts = [
                uri
                for node in opened.segments
                for uri in (documents.format_uri(CONTENTS, node.node_id), *_list_grips(node))
            ]
            return RecordOrigin(
                uris=(opened.uri, *parts),
                kind="session",
                title="" if opened.entry is None else opened.entry.title,
                at_ms=opened.start_ms,
                session_id=opened.session_id,
                project=opened.project,
            )
        case OpenedFact(fact=fact):
            return RecordOrigin(
                uris=(opened.uri,),
                kind="fact",
                title=f"{fact.key}: {fact.value}",
                at_ms=fact.created_ms,
            )
        case OpenedRecord():
            return RecordOrigin(
                uris=(opened.uri,),
                kind=opened.kind,
                title=opened.title,
                at_ms=opened.at_ms,
                session_id=opened.session_id,
                project=opened.project,
                words=opened.words,
            )
        case _:
            assert_never(opened)


def _list_grips(node: TocNode) -> list[str]:
    return [documents.format_uri(GRIPS, grip_id) for grip_id in sorted(node.grip_ids())]
