"""Queries: what is asked of recall, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from agent_memory.features.index.model.documents import (
    Document,
    DocumentKey,
    DocumentKind,
    build_key,
)
from agent_memory.features.log.model.events import check_millis
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position

MAX_QUERY_CHARS = 10_000
DEFAULT_LIMIT = 10
CANDIDATES = 40  # more find no more, and each costs time
MAX_LIMIT = 100
MAX_OFFSET = 10_000
MAX_TAGS = 100
HIDDEN = frozenset({"archived", "tombstone"})  # statuses that are found only when asked for

_EARLIEST = Millis(0)
_LATEST = Millis(MAX_MILLIS)


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    VECTOR = "vector"
    BM25 = "bm25"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """What may be found. Empty means any; what is given must all hold."""

    kinds: frozenset[DocumentKind] = frozenset()
    project: str = ""
    session: str = ""
    agent: str = ""
    role: str = ""
    namespace: str = ""
    domains: frozenset[str] = frozenset()  # any of; "project" and "org" stand for all of these
    spec: str = ""
    statuses: frozenset[str] = frozenset()  # empty: all but the hidden ones
    archived: bool = False  # then those that are archived are not hidden
    tags: frozenset[str] = frozenset()
    since: Millis = _EARLIEST
    until: Millis = _LATEST

    def __post_init__(self) -> None:
        check_millis("from_timestamp_ms", self.since)
        check_millis("to_timestamp_ms", self.until)
        if self.since > self.until:
            raise InvalidInput(f"the time range ends ({self.until}) before it begins: {self.since}")
        if len(self.tags) > MAX_TAGS:
            raise InvalidInput(f"{len(self.tags)} tags were asked for; the limit is {MAX_TAGS}")

    def exact(self) -> Mapping[str, str]:
        """What a field must equal, by the field's name."""
        named = {
            name: getattr(self, name)
            for name in ("project", "session", "agent", "role", "namespace", "spec")
        }
        return {name: wanted for name, wanted in named.items() if wanted}

    def admits(self, document: Document) -> bool:
        return (
            (not self.kinds or document.kind in self.kinds)
            # Written out: it is asked about each of many candidates.
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
        )

    def admits_status(self, status: str) -> bool:
        return status in self.statuses if self.statuses else status not in self.hidden

    @property
    def hidden(self) -> frozenset[str]:
        return HIDDEN - {"archived"} if self.archived else HIDDEN


def domain_names(domain: str) -> tuple[str, ...]:
    """The names under which a domain is found: `project:x` also as `project`."""
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
    candidates: int = CANDIDATES  # of each index; fewer are found sooner

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
            raise InvalidInput(f"the least score is {self.min_score}; it must be from 0 to 1")

    @property
    def is_listing(self) -> bool:
        """Whether everything is asked for, not something."""
        return self.text.strip().lower() in {"", "all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """What the weight of a word depends on."""

    documents: int
    average_length: float
    frequencies: Mapping[str, int]  # in how many documents each term stands
    speakers: frozenset[str] = frozenset()  # those of the terms by which a speaker is known

    def plus(self, other: "TermStatistics") -> "TermStatistics":
        documents = self.documents + other.documents
        words = self.documents * self.average_length + other.documents * other.average_length
        return TermStatistics(
            documents=documents,
            average_length=words / documents if documents else 1.0,
            frequencies={
                term: count + other.frequencies.get(term, 0)
                for term, count in self.frequencies.items()
            },
            speakers=self.speakers | other.speakers,
        )


class IndexHit(NamedTuple):
    """What an index knows of a document it found; `score` is the index's own."""

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
        """Of an event."""
        return Position(at_ms=self.at_ms, event_id=EventId(self.id))


def to_index_hit(document: Document) -> IndexHit:
    return IndexHit(document.kind, document.id, document.at_ms, document.session, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something found, and why: the parts of its score, and where it stands."""

    document: Document
    score: float
    parts: Mapping[str, float]
    uri: str = ""
    event_id: str = ""  # where it stands: this event, or the first of a range
    last_event_id: str = ""
    grip_id: str = ""
    node_id: str = ""
    truncated: bool = False  # the document's text is longer than told here


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResult:
    hits: tuple[Hit, ...]
    total: int  # how many there are to page through
    next: int | None = None  # the offset of those that follow
    warning: str | None = None
