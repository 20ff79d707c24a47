"""Queries and results of recall."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum
from typing import NamedTuple, Protocol

from agent_memory.features.index.model.documents import (
    Document,
    DocumentKey,
    DocumentKind,
    build_key,
    is_visible,
)
from agent_memory.features.log.model.events import check_millis
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, MemoryKey, Millis, Position

MAX_QUERY_CHARS = 10_000
DEFAULT_LIMIT = 10
CANDIDATES = 40  # more do not improve results, and each costs time
MAX_LIMIT = 100
MAX_OFFSET = 10_000
MAX_TAGS = 100
NO_EMBEDDER = "searched by words alone: embedder.provider is none"  # a warning
HIDDEN = frozenset({"archived", "tombstone"})  # statuses that are found only on request

_EARLIEST = Millis(0)
_LATEST = Millis(MAX_MILLIS)


LOCAL, TEAM = "local", "team"  # where a hit comes from


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    VECTOR = "vector"
    BM25 = "bm25"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """The filters of a search. An empty filter admits everything; all others must hold."""

    kinds: frozenset[DocumentKind] = frozenset()
    project: str = ""
    session: str = ""
    agent: str = ""
    role: str = ""
    namespace: str = ""
    domains: frozenset[str] = frozenset()  # any of them; "project" and "org" mean all of these
    spec: str = ""
    statuses: frozenset[str] = frozenset()  # empty: all but the hidden ones
    archived: bool = False  # True: archived memories are not hidden
    tags: frozenset[str] = frozenset()
    since: Millis = _EARLIEST
    until: Millis = _LATEST
    caller: Principal | None = None  # on a team server: who asks, and so what may be found

    def __post_init__(self) -> None:
        check_millis("from_timestamp_ms", self.since)
        check_millis("to_timestamp_ms", self.until)
        if self.since > self.until:
            raise InvalidInput(f"the time range ends ({self.until}) before it begins: {self.since}")
        if len(self.tags) > MAX_TAGS:
            raise InvalidInput(f"the query has {len(self.tags)} tags; the limit is {MAX_TAGS}")

    def exact(self) -> Mapping[str, str]:
        """Return the values that fields must equal, by field name."""
        names = ("project", "session", "agent", "role", "namespace", "spec")
        return {name: value for name in names if (value := getattr(self, name))}

    def admits(self, document: Document) -> bool:
        return (
            (not self.kinds or document.kind in self.kinds)
            # Written out for speed: it is called for each of many candidates.
            and (not self.project or document.project == self.project)
            and (not self.session or document.session == self.session)
            and (not self.agent or document.agent == self.agent)
            and (not self.role or document.role == self.role)
            and (not self.namespace or document.namespace == self.namespace)
            and (not self.spec or document.spec == self.spec)
            and (not self.domains or not self.domains.isdisjoint(domain_names(document.domain)))
            and self.admits_status(document.status)
            and self.tags <= document.tags
            and self.since <= document.at_ms <= self.until
            and (self.caller is None or is_visible(document, self.caller))
        )

    @property
    def filters_turns(self) -> bool:
        """Whether a turn beside a hit may fail a filter that only its record tells."""
        rest = self.tags or self.domains or self.statuses or self.caller is not None
        return bool(rest or self.exact().keys() - {"session"})

    def admits_turn(self, hit: "IndexHit") -> bool:
        """Tell whether an event passes the filters on kind, session and time."""
        return (
            (not self.kinds or hit.kind in self.kinds)
            and (not self.session or hit.session == self.session)
            and self.since <= hit.at_ms <= self.until
        )

    def admits_status(self, status: str) -> bool:
        return status in self.statuses if self.statuses else status not in self.hidden

    @property
    def hidden(self) -> frozenset[str]:
        return HIDDEN - {"archived"} if self.archived else HIDDEN


def domain_names(domain: str) -> tuple[str, ...]:
    """Return the names under which a domain is found: `project:x` also as `project`."""
    family = domain.partition(":")[0]
    return (domain,) if family == domain else (domain, family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    text: str
    scope: SearchScope = field(default_factory=SearchScope)
    mode: SearchMode = SearchMode.HYBRID
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    min_score: float = 0.0
    candidates: int = CANDIDATES  # of each index; fewer are faster
    zone: tzinfo | None = None  # in which its dates are read; None is that of this machine

    def __post_init__(self) -> None:
        if len(self.text) > MAX_QUERY_CHARS:
            raise InvalidInput(
                f"the query has {len(self.text):,} characters; the limit is {MAX_QUERY_CHARS:,}"
            )
        if self.limit < 0 or self.offset < 0:
            raise InvalidInput("limit and offset must not be negative")
        if self.offset > MAX_OFFSET:
            raise InvalidInput(
                f"pages end after {MAX_OFFSET:,} results: narrow the time range to go further back"
            )
        if not 0.0 <= self.min_score <= 1.0:
            raise InvalidInput(f"the minimum score is {self.min_score}; it must be from 0 to 1")

    @property
    def is_listing(self) -> bool:
        """Whether the query asks for everything in scope."""
        return is_listing(self.text)


def is_listing(text: str) -> bool:
    return text.strip().lower() in {"", "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """The statistics that determine the weight of terms."""

    documents: int
    frequencies: Mapping[str, int]  # the number of documents with each term
    speakers: frozenset[str] = frozenset()  # the terms that are names of speakers

    def plus(self, other: "TermStatistics") -> "TermStatistics":
        return TermStatistics(
            documents=self.documents + other.documents,
            frequencies={
                term: count + other.frequencies.get(term, 0)
                for term, count in self.frequencies.items()
            },
            speakers=self.speakers | other.speakers,
        )


class IndexHit(NamedTuple):
    """A document that an index found. `score` is on the index's own scale."""

    kind: DocumentKind
    id: str
    at_ms: Millis
    session: str
    score: float

    @property
    def key(self) -> DocumentKey:
        return build_key(self.kind, self.id)

    @property
    def position(self) -> Position:
        """The position of an event."""
        return Position(at_ms=self.at_ms, event_id=EventId(self.id))


def to_index_hit(document: Document) -> IndexHit:
    return IndexHit(document.kind, document.id, document.at_ms, document.session, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The part of a document's text that answers. It begins at character `start` of that text;
    `marks` are the ranges of the matching words, counted from the beginning of the passage."""

    text: str
    start: int = 0
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A result with the parts of its score and its place."""

    document: Document
    score: float
    parts: Mapping[str, float]
    uri: str = ""
    event_id: str = ""  # its event, or the first of a range
    last_event_id: str = ""
    grip_id: str = ""
    node_id: str = ""
    memory: MemoryKey | None = None  # the key of a memory that is stored
    truncated: bool = False  # the text of `document` is cut
    passage: Passage | None = None  # None where the title of a memory has all of it
    origin: str = LOCAL  # or the team's server
    person: str = ""  # of the team, whose it is


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    hits: tuple[Hit, ...]
    total: int  # the number of results on all pages
    next: int | None = None  # the offset of the next page
    warning: str | None = None
    certain: bool = True  # False: no hit reaches CERTAIN_SCORE; a listing is always certain


class Search(Protocol):
    """Answers a question: recall on this machine, or also on the team's server."""

    def __call__(self, query: Query, /) -> RecallResult: ...
