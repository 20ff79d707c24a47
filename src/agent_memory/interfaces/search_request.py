"""A search request: the filters that every interface offers, parsed and checked in one place."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from typing import TypeVar

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Query, SearchMode, SearchScope, is_listing
from agent_memory.features.log.model.events import EventRole
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ALL, MAX_MILLIS, ORG, PROJECT, Millis
from agent_memory.kernel.spelling import find_same, suggest_nearest

PLURALS = {
    "events": DocumentKind.EVENT,
    "segments": DocumentKind.SEGMENT,
    "grips": DocumentKind.GRIP,
    "memories": DocumentKind.MEMORY,
    "facts": DocumentKind.FACT,
}
# The words of every interface for where to look.
KIND_WORDS = (*PLURALS, *(kind.value for kind in PLURALS.values()), ALL)
# Not grips: each is part of an event.
DEFAULT_KINDS = frozenset(DocumentKind) - {DocumentKind.GRIP}
MEMORIES = frozenset({DocumentKind.MEMORY})
ROLES = tuple(role.name.lower() for role in EventRole)

Moments = Callable[[str], tuple[Millis, Millis]]  # the first and last moment that words name
E = TypeVar("E", bound=StrEnum)


def check_domain(name: str) -> str:
    """Check a domain of a filter: a full name, or `project` or `org` for all of these."""
    return name if name in (PROJECT, ORG) else memories.check_domain(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search as a caller sends it. An empty filter matches everything.

    Without `kinds`, a listing has memories, and so has a search with a filter that only memories
    have. Any other search covers DEFAULT_KINDS.
    """

    query: str = ""
    kinds: Collection[str] = ()
    mode: str = SearchMode.HYBRID
    limit: int = 0  # 0 is the default
    offset: int = 0
    project: str = ""
    session_id: str = ""
    agent: str = ""
    role: str = ""
    namespace: str = ""
    domain: str = ""  # several with commas; `all` is every domain
    spec: str = ""
    statuses: Collection[str] = ()
    include_archived: bool = False
    tags: Collection[str] = ()  # a hit has all of them
    since: str | int = ""  # words or Unix milliseconds
    until: str | int = ""
    min_similarity: float = 0.0

    def to_query(
        self,
        moments: Moments,
        resolve_domain: Callable[[str], str] = check_domain,
        *,
        resolve_session: Callable[[str], str] = str,
        zone: tzinfo | None = None,
    ) -> Query:
        """Build the query. Raises InvalidInput."""
        domains = frozenset(map(resolve_domain, _split_domains(self.domain)))
        kinds = parse_kinds(self.kinds)
        if not kinds:
            of_memories = self.namespace or domains or self.spec or self.statuses or self.tags
            kinds = MEMORIES if of_memories or is_listing(self.query) else DEFAULT_KINDS
        return Query(
            text=self.query,
            mode=_parse_choice(SearchMode, "mode", self.mode),
            limit=self.limit,
            offset=self.offset,
            min_score=self.min_similarity,
            zone=zone,
            scope=SearchScope(
                kinds=kinds,
                project=self.project,
                session=resolve_session(self.session_id) if self.session_id else "",
                agent=self.agent,
                role=_parse_role(self.role),
                namespace=memories.resolve_namespace(self.namespace) if self.namespace else "",
                domains=domains,
                spec=self.spec,
                statuses=frozenset(
                    _parse_choice(MemoryStatus, "status", name) for name in self.statuses
                ),
                archived=self.include_archived,
                tags=frozenset(self.tags),
                since=_parse_time(self.since, lambda words: moments(words)[0], 0),
                until=_parse_time(self.until, lambda words: moments(words)[1], MAX_MILLIS),
            ),
        )


def parse_kinds(names: Collection[str]) -> frozenset[DocumentKind]:
    """Parse kinds in singular or plural, several with commas, or `all`. Raises InvalidInput."""
    words = [word.strip().lower() for name in names for word in name.split(",")]
    return frozenset(kind for word in words for kind in _parse_kind(word))


def _parse_kind(word: str) -> Collection[DocumentKind]:
    if word == ALL:
        return list(DocumentKind)
    plural = find_same(word, PLURALS)
    if plural is None:
        raise InvalidInput(_describe_wrong("kind", word, (*PLURALS, ALL)))
    return (PLURALS[plural],)


def _parse_role(name: str) -> str:
    role = find_same(name, ROLES) if name else ""
    if role is None:
        raise InvalidInput(_describe_wrong("role", name, ROLES))
    return role


def _split_domains(domain: str) -> list[str]:
    names = [name.strip() for name in domain.split(",")] if domain else []
    return [] if ALL in names else names


def _parse_time(time: str | int, parse_words: Callable[[str], Millis], default: int) -> Millis:
    if isinstance(time, int):
        return Millis(time)
    return parse_words(time) if time else Millis(default)


def _parse_choice(choices: type[E], field: str, name: str) -> E:
    known = [choice.value for choice in choices]
    found = find_same(name, known)
    if found is None:
        raise InvalidInput(_describe_wrong(field, name, known))
    return choices(found)


def _describe_wrong(field: str, name: str, known: Sequence[str]) -> str:
    nearest = suggest_nearest(name, known, cutoff=0.6)
    return f"{field} is {name[:80]!r}; it must be one of {', '.join(known)}{nearest}"
