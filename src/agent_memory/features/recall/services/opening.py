"""Opening: find what an id, the beginning of an id or a URI names, and read what belongs to it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import CONTENTS, EVENTS, FACTS, GRIPS, SESSIONS
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import get_main_session, is_description
from agent_memory.features.log.ports import EventFinder, EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.editing import MemoryDetails, MemoryEditor
from agent_memory.features.recall.model.records import OpenedRecord
from agent_memory.features.recall.ports import RecordSource
from agent_memory.features.toc.model import periods, short_ids
from agent_memory.features.toc.model.journal_entries import SessionEntry
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.ports import TocReader
from agent_memory.features.toc.services.contents import DEFAULT_CONTEXT, Contents, Expansion
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.kernel.errors import AmbiguousName, InvalidInput, NotFound
from agent_memory.kernel.ids import EventId, Millis, SessionId

MAX_AROUND = 50
MIN_PREFIX = 4  # characters of an id
LISTED = 10  # records that a beginning may mean
_AREAS = (SESSIONS, FACTS, CONTENTS, GRIPS, EVENTS)  # events last: there are many
_KINDS = "memory, session, fact, lesson, node, grip or event"
_SHOWN = 80  # characters of a name in a message
_WORDS = 60  # characters of a text in a list
_ENDS = 200  # events at each end of a session in which its prompt and its answer are looked for
_SESSIONS = 200  # read to find those that a beginning may mean, with their subagents
_FORMER = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEvent:
    """An event with the turns around it, by time."""

    event: Event
    before: tuple[Event, ...]
    after: tuple[Event, ...]

    @property
    def uri(self) -> str:
        return documents.format_uri(EVENTS, self.event.event_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedNode:
    node: TocNode
    children: tuple[TocNode, ...]

    @property
    def uri(self) -> str:
        return documents.format_uri(CONTENTS, self.node.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedGrip:
    grip: Grip
    expansion: Expansion

    @property
    def uri(self) -> str:
        return documents.format_uri(GRIPS, self.grip.grip_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSession:
    """A session. `prompt` is its first prompt and `answer` its last answer.

    `entry` is None until its first segment is in the table of contents.
    """

    session_id: SessionId
    start_ms: Millis
    end_ms: Millis
    project: str
    agent: str
    events: int
    entry: SessionEntry | None
    prompt: Event | None
    answer: Event | None

    @property
    def segments(self) -> tuple[TocNode, ...]:
        """The segments of the session and its subagents, by time."""
        return () if self.entry is None else self.entry.segments

    @property
    def uri(self) -> str:
        return documents.format_uri(SESSIONS, self.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFact:
    """A fact with its earlier values, latest first."""

    fact: Fact
    history: tuple[Former, ...]

    @property
    def uri(self) -> str:
        return documents.format_uri(FACTS, self.fact.id)


Opened = OpenedEvent | OpenedNode | OpenedGrip | OpenedSession | OpenedFact | OpenedRecord


@dataclass(frozen=True, slots=True)
class _Session:
    """A session, with its first event."""

    first: Event


_Record = Event | TocNode | Grip | Fact | OpenedRecord | _Session


@dataclass(frozen=True, slots=True)
class Opening:
    log: EventLog
    finder: EventFinder
    toc: TocReader
    contents: Contents
    journal: WorkJournal
    knowledge: KnowledgeStore
    facts: Facts
    editor: MemoryEditor
    sources: Sequence[RecordSource] = ()  # of features above

    def open(
        self,
        name: str,
        here: MemoryLocation,
        *,
        around: int = DEFAULT_CONTEXT,
        counted: bool = True,
    ) -> MemoryDetails | Opened:
        """Return the record of this name: a URI, an id, the beginning of an id, or a short id.
        It counts as a use of a memory, unless not `counted`.

        The name of a memory comes first, then a whole id, then a beginning. Raises NotFound,
        InvalidInput, and AmbiguousName with a list of the records that it may mean.
        """
        if name.strip().startswith(documents.SCHEME):
            return self.open_uri(name.strip(), whole=False, around=around)
        try:
            return self.editor.show(name, here, counted=counted)
        except (NotFound, InvalidInput) as exc:
            problem = exc
        areas = [*(source.area for source in self.sources), *_AREAS]
        found = self._find(areas, name, whole=isinstance(problem, AmbiguousName))
        if not found and (isinstance(problem, AmbiguousName) or memories.is_full_name(name)):
            raise problem
        return self._read(_choose(name, found), around)

    def open_uri(self, uri: str, *, whole: bool = True, around: int = DEFAULT_CONTEXT) -> Opened:
        """Return the record of a `memory://` URI: of the `whole` id in it, or of a beginning.

        Raises NotFound, and for a beginning also AmbiguousName.
        """
        area, name = documents.parse_uri(uri)
        found = self._find([area], name, whole=whole)
        return self._read(_choose(uri, found), around)

    def find_session(self, name: str) -> SessionId | None:
        """Return the id of the session that a name means: an id, its beginning, or a URI.

        Raises AmbiguousName with a list of the sessions that a beginning may mean.
        """
        written = name.strip()
        if written.startswith(documents.SCHEME):
            area, written = documents.parse_uri(written)
            if area != SESSIONS:
                return None
        found = self._find([SESSIONS], written)
        if not found:
            return None
        record = _choose(written, found)
        return record.first.session_id if isinstance(record, _Session) else None

    def resolve_session(self, name: str) -> str:
        """Return the id of the session that a filter names. An unknown name stays as it is.

        Raises AmbiguousName.
        """
        return self.find_session(name) or name

    def _find(self, areas: Sequence[str], name: str, *, whole: bool = False) -> list[_Record]:
        """Return the records with this id, or else, unless `whole`, those whose id begins so."""
        if not name or not name.isprintable():  # no id is like this
            return []
        found = [record for area in areas for record in self._get(area, name)]
        if found or whole or len(name) < MIN_PREFIX:
            return found
        return [record for area in areas for record in self._list(area, name)]

    def _get(self, area: str, name: str) -> Iterator[_Record]:
        found: _Record | None = None
        match area:
            case documents.EVENTS:
                found = self.log.get(EventId(name))
            case documents.SESSIONS:
                found = self._get_session(SessionId(name))
            case documents.FACTS:
                (found,) = self.knowledge.get(Fact, [name])
            case documents.GRIPS:
                (found,) = self.toc.get_grips([name])
            case documents.CONTENTS:
                node_id = periods.canonicalize(name)
                found = None if node_id is None else self.toc.get_nodes([node_id])[0]
            case _:
                found = next((s.get(name) for s in self.sources if s.area == area), None)
        if found is not None:
            yield found

    def _list(self, area: str, prefix: str) -> Iterator[_Record]:
        most = LISTED + 1
        match area:
            case documents.EVENTS:
                yield from self.finder.find_events(prefix, limit=most)
            case documents.SESSIONS:
                yield from islice(self._list_sessions(prefix), most)
            case documents.FACTS:
                facts = self.knowledge.list_after(Fact, prefix, limit=most)
                yield from (fact for fact in facts if fact.id.startswith(prefix))
            case documents.GRIPS:
                yield from self.toc.list_grips(short_ids.to_grip_prefix(prefix), limit=most)
            case documents.CONTENTS:
                begin = short_ids.to_segment_prefix(prefix)
                node_ids = self.toc.list_ids(begin, after=None, limit=most)
                yield from filter(None, self.toc.get_nodes(node_ids))
            case _:
                for source in self.sources:
                    if source.area == area:
                        yield from source.list_beginning(prefix, limit=most)

    def _list_sessions(self, prefix: str) -> Iterator[_Session]:
        """Yield the sessions that begin so, without subagents of a session that also does."""
        by_main: dict[str, list[SessionId]] = defaultdict(list)
        for name in self.finder.find_sessions(prefix, limit=_SESSIONS):
            by_main[get_main_session(name)].append(name)
        for main, names in by_main.items():
            own = self._get_session(SessionId(main)) if main.startswith(prefix) else None
            rest = [] if own is not None else map(self._get_session, names)
            yield from filter(None, [own, *rest])

    def _get_session(self, session_id: SessionId) -> _Session | None:
        events = self.log.list_session(session_id, after=None, limit=1).events
        return _Session(events[0]) if events else None

    def _read(self, record: _Record, around: int) -> Opened:
        match record:
            case Event():
                return self._read_event(record, around)
            case TocNode():
                children = tuple(filter(None, self.toc.get_nodes(record.child_ids)))
                return OpenedNode(node=record, children=children)
            case Grip():
                expansion = self.contents.expand(record.grip_id, before=around, after=around)
                return OpenedGrip(grip=record, expansion=expansion)
            case Fact():
                fact = self.facts.read(record.id)
                history, _ = self.facts.history(record.id, limit=_FORMER, offset=0)
                return OpenedFact(fact=fact, history=tuple(history))
            case OpenedRecord():
                return record
            case _Session():
                return self._read_session(record.first)

    def _read_event(self, event: Event, around: int) -> OpenedEvent:
        def list_near(*, reverse: bool) -> tuple[Event, ...]:
            if not around:
                return ()
            return self.log.list_session(
                event.session_id, after=event.position, limit=around, reverse=reverse
            ).events

        return OpenedEvent(
            event=event, before=list_near(reverse=True)[::-1], after=list_near(reverse=False)
        )

    def _read_session(self, begin: Event) -> OpenedSession:
        session_id = begin.session_id
        first = self.log.list_session(session_id, after=None, limit=_ENDS).events
        last = self.log.list_session(session_id, after=None, limit=_ENDS, reverse=True).events
        return OpenedSession(
            session_id=session_id,
            start_ms=begin.at_ms,
            end_ms=last[0].at_ms if last else begin.at_ms,  # it may be forgotten meanwhile
            project=_first_value(first, "project"),
            agent=_first_value(first, "agent"),
            events=self.finder.count_session(session_id),
            entry=self.journal.read_session(session_id),
            prompt=_first_said(first, EventType.USER_MESSAGE),
            answer=_first_said(last, EventType.ASSISTANT_MESSAGE),
        )


def _choose(name: str, found: Sequence[_Record]) -> _Record:
    """Return the one record that was found. Raises NotFound, InvalidInput and AmbiguousName."""
    shown = repr(name[:_SHOWN])
    if len(found) == 1:
        return found[0]
    if found:
        lines = [f"  {_describe(record)}" for record in found[:LISTED]]
        more = ["  and more"] if len(found) > LISTED else []
        raise AmbiguousName(
            "\n".join((f"{shown} may mean any of these; give its URI:", *lines, *more))
        )
    if len(name) < MIN_PREFIX:
        raise InvalidInput(
            f"{shown} is not an id: give a URI, an id, or at least {MIN_PREFIX} characters of the"
            " beginning of one"
        )
    if name.startswith(documents.SCHEME):
        raise NotFound(f"nothing has the URI {shown}; `memory recall WORDS` searches")
    hint = ""
    if short_ids.is_too_short(name):
        hint = (
            f" (give at least {short_ids.MIN_LENGTH} characters of the id of a segment or a grip)"
        )
    raise NotFound(
        f"no {_KINDS} has an id that begins with {shown}{hint}; `memory recall WORDS` searches in"
        " what they say"
    )


def _describe(record: _Record) -> str:
    """Return kind, date, URI and first words of a record, safe to print."""
    match record:
        case Event():
            kind, at_ms, text = "event", record.at_ms, record.text
            uri = documents.format_uri(EVENTS, record.event_id)
        case TocNode():
            kind, at_ms, text = record.level.name.lower(), record.start_ms, record.title
            uri = documents.format_uri(CONTENTS, record.node_id)
        case Grip():
            kind, at_ms, text = "grip", record.at_ms, record.excerpt
            uri = documents.format_uri(GRIPS, record.grip_id)
        case Fact():
            kind, at_ms, text = "fact", record.valued_ms, f"{record.key}: {record.value}"
            uri = documents.format_uri(FACTS, record.id)
        case OpenedRecord(kind=kind, at_ms=at_ms, title=text, uri=uri):
            pass
        case _Session(first=first):
            kind, at_ms, text = "session", first.at_ms, first.text
            uri = documents.format_uri(SESSIONS, first.session_id)
    words = " ".join(text[: 4 * _WORDS].split())
    words = words if len(words) <= _WORDS else words[: _WORDS - 3] + "..."
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    return f"{kind:<7} {documents.format_iso(at_ms)[:10]} {uri}  {plain}".rstrip()


def _first_value(events: Sequence[Event], name: str) -> str:
    """Return the first value that an event's metadata has under a name."""
    return next((value for event in events if (value := event.metadata.get(name))), "")


def _first_said(events: Sequence[Event], kind: EventType) -> Event | None:
    said = (e for e in events if e.type is kind and not is_description(e))
    return next((e for e in said if e.text.strip()), None)
