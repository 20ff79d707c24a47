"""Searches: one request, and one form of a hit, for every interface."""

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import cache
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import UNSET, Meta, Struct, field

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    MAX_QUERY_CHARS,
    MAX_TAGS,
    Hit,
    Passage,
    Query,
    RecallResult,
    Search,
    SearchMode,
    SearchScope,
    is_listing,
)
from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import NAMESPACES, MemoryStatus
from agent_memory.features.memories.services.project_resolver import SOME_DOMAIN, ProjectResolver
from agent_memory.features.recall.model import search_filters
from agent_memory.features.recall.model.search_filters import (
    DEFAULT_KINDS,
    KIND_WORDS,
    MEMORIES,
    ROLES,
)
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.ids import ALL, MAX_MILLIS, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.tracing import Interface

Detail = Literal["minimal", "summary", "full"]
Moments = Callable[[str], tuple[Millis, Millis]]  # the first and last moment that words name

MAX_HIT_CHARS = 20_000  # of a hit's text
MAX_HIT_BYTES = 32_000  # likewise, so that a page of hits fits a message of 4 MiB
MAX_SUMMARY_TEXT = 2_000
MAX_SUMMARY_LINE = 200
_FILTER_CHARS = 300

Filter = Annotated[str, Meta(max_length=_FILTER_CHARS)]
Time = Annotated[str, Meta(max_length=_FILTER_CHARS)] | int | None
Score = Annotated[float, Meta(ge=0, le=1, description="Only with at least this score.")]
KindWord = Annotated[str, Meta(extra_json_schema={"enum": [*KIND_WORDS]})]
StatusWord = Annotated[str, Meta(extra_json_schema={"enum": [each.value for each in MemoryStatus]})]
Token = Annotated[
    str,
    Meta(
        max_length=20,
        description="continuation_token of the previous answer, to get the next page.",
    ),
]


def _word(*words: str, description: str) -> Meta:
    """Describe a field that takes one of these words. The parser says which is meant by another."""
    return Meta(
        max_length=_FILTER_CHARS, description=description, extra_json_schema={"enum": [*words]}
    )


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A query and its filters. An empty query, or `all`, lists the newest. An empty filter matches
    everything."""

    query: Annotated[
        str,
        Meta(
            max_length=MAX_QUERY_CHARS,
            description="A question or words, as you would ask a colleague. Empty lists the"
            " newest.",
            examples=["why PostgreSQL"],
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    namespace: Annotated[
        str, _word("", *NAMESPACES, description="Only this kind of memory; empty: any.")
    ] = ""
    domain: Annotated[
        str, Meta(max_length=_FILTER_CHARS, description=f"{SOME_DOMAIN} Several with commas.")
    ] = ALL
    mode: Annotated[
        str, _word(*SearchMode, description="By words and meaning, by meaning, or by words.")
    ] = SearchMode.HYBRID.value
    min_similarity: Score = 0.0
    detail: Annotated[Detail, Meta(description="`full` includes the content.")] = "summary"
    kinds: Annotated[
        tuple[KindWord, ...],
        Meta(
            max_length=10,
            description="Where to look: memories, facts, events (what was said, verbatim), segments"
            " (summaries of conversations), grips (quotes of events), or all. Empty: all but grips,"
            " and only memories if the query is empty or a filter is set that only memories have.",
        ),
    ] = ()
    tags: Annotated[
        tuple[str, ...], Meta(max_length=MAX_TAGS, description="Only with all of these.")
    ] = ()
    since: Annotated[Time, Meta(description="2026-01-30, `last week`, or Unix milliseconds.")] = (
        None
    )
    until: Annotated[Time, Meta(description="Likewise.")] = None
    project: Annotated[Filter, Meta(description="Only of this project, by its name.")] = ""
    session_id: Annotated[
        Filter, Meta(description="Only of this session: its id, or a beginning of it.")
    ] = ""
    agent: Annotated[Filter, Meta(description="Only of this agent, as `claude-code`.")] = ""
    role: Annotated[str, _word("", *ROLES, description="Only events of this role; empty: any.")] = (
        ""
    )
    spec: Annotated[Filter, Meta(description="Only memories of this specification.")] = ""
    statuses: Annotated[
        tuple[StatusWord, ...],
        Meta(
            max_length=len(MemoryStatus),
            description="Only memories with one of these; empty: all but archived and tombstone."
            " `pending` was noted automatically: the user has not confirmed it yet.",
        ),
    ] = ()
    include_archived: Annotated[bool, Meta(description="Archived memories too.")] = False
    continuation_token: Token | None = None

    def to_query(
        self,
        moments: Moments,
        resolve_domain: Callable[[str], str] = search_filters.check_domain,
        *,
        resolve_session: Callable[[str], str] = str,
        zone: tzinfo | None = None,
    ) -> Query:
        """Build the query. Raises InvalidInput."""
        domains = frozenset(map(resolve_domain, search_filters.split_domains(self.domain)))
        kinds = search_filters.parse_kinds(self.kinds)
        if not kinds:
            of_memories = self.namespace or domains or self.spec or self.statuses or self.tags
            kinds = MEMORIES if of_memories or is_listing(self.query) else DEFAULT_KINDS
        parse_choice = search_filters.parse_choice
        return Query(
            text=self.query,
            mode=parse_choice(SearchMode, "mode", self.mode),
            limit=self.limit,
            offset=self.find_offset(),
            min_score=self.min_similarity,
            zone=zone,
            scope=SearchScope(
                kinds=kinds,
                project=self.project,
                session=resolve_session(self.session_id) if self.session_id else "",
                agent=self.agent,
                role=search_filters.parse_role(self.role),
                namespace=memories.resolve_namespace(self.namespace) if self.namespace else "",
                domains=domains,
                spec=self.spec,
                statuses=frozenset(
                    parse_choice(MemoryStatus, "status", name) for name in self.statuses
                ),
                archived=self.include_archived,
                tags=frozenset(self.tags),
                since=self._parse_time(self.since, lambda words: moments(words)[0], 0),
                until=self._parse_time(self.until, lambda words: moments(words)[1], MAX_MILLIS),
            ),
        )

    def find_offset(self) -> int:
        return parse_offset(self.continuation_token) if self.continuation_token else 0

    def _parse_time(
        self, time: str | int | None, parse_words: Callable[[str], Millis], default: int
    ) -> Millis:
        if isinstance(time, int):
            return Millis(time)
        return parse_words(time) if time else Millis(default)


class SearchParameters(SearchRequest, frozen=True, kw_only=True):
    """The same with the names that REST and gRPC have for some fields. A number is always a time
    in milliseconds, never a year."""

    limit: Annotated[int, Meta(ge=0, le=MAX_LIMIT, description="0 is the default, 10.")] = 0
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="Hits to skip.")] = 0
    domain: Annotated[
        str,
        Meta(
            max_length=_FILTER_CHARS,
            description="A full name; `project` and `org` are all of these. Several with commas.",
            examples=["project:my-app"],
        ),
    ] = ALL
    since: Annotated[Time, Meta(description="Unix milliseconds, or words: `last week`.")] = field(
        default=None, name="from_timestamp_ms"
    )
    until: Annotated[Time, Meta(description="Likewise.")] = field(
        default=None, name="to_timestamp_ms"
    )
    min_similarity: Score = field(default=0.0, name="min_score")

    def find_offset(self) -> int:
        return self.offset if self.continuation_token is None else super().find_offset()

    def _parse_time(
        self, time: str | int | None, parse_words: Callable[[str], Millis], default: int
    ) -> Millis:
        if isinstance(time, str) and time.isascii() and time.isdecimal():
            time = int(time)
        return super()._parse_time(time, parse_words, default)


class SearchMessage(SearchParameters, frozen=True, kw_only=True):
    """The same as gRPC sends it: more than the most hits are the most, and a query says itself what
    is wrong with it."""

    query: str = ""
    limit: int = 0
    min_similarity: float = field(default=0.0, name="min_score")
    continuation_token: str | None = None

    def find_offset(self) -> int:
        token = self.continuation_token
        return self.offset if token is None else parse_offset(token)


def _of(*kinds: DocumentKind, description: str | None = None) -> Meta:
    """Describe a field that JSON shows of records of these kinds only."""
    return Meta(extra={"kinds": kinds}, description=description)


_OF_ALL = _of(*DocumentKind)
_OF_MEMORY, _OF_EVENT = _of(DocumentKind.MEMORY), _of(DocumentKind.EVENT)
_OF_OTHERS = _of(*(kind for kind in DocumentKind if kind is not DocumentKind.MEMORY))


class PassageAnswer(Struct, frozen=True, kw_only=True):
    """The part of a text that answers."""

    text: str
    start: Annotated[int, Meta(description="In the whole text, in characters.")]
    end: int
    marks: Annotated[
        list[tuple[int, int]],
        Meta(description="The [start, end] of each matching word, counted in this text."),
    ]

    @classmethod
    def from_passage(cls, passage: Passage) -> Self:
        return cls(
            text=passage.text, start=passage.start, end=passage.end, marks=list(passage.marks)
        )


class HitAnswer(Struct, frozen=True, kw_only=True):
    """What a search found. Commands and gRPC get all fields of every kind; JSON gets those that
    `show` leaves."""

    kind: str
    id: str
    uri: str
    score: Annotated[float, Meta(ge=0, le=1, description="Relevance, from 0 to 1; 0 in a listing.")]
    summary: str = ""
    timestamp: str = ""
    origin: Literal["local", "team"] = "local"
    person: str | None = None
    timestamp_ms: Annotated[int, _OF_ALL, Meta(description="Unix time in milliseconds.")] = 0
    namespace: Annotated[str, _OF_MEMORY] = ""
    domain: Annotated[str, _OF_MEMORY] = ""
    tags: Annotated[list[str], _OF_MEMORY] = []
    spec: Annotated[str | None, _OF_MEMORY] = None
    status: Annotated[str, _OF_MEMORY] = ""
    relates_to: Annotated[list[str], _OF_MEMORY] = []
    event_id: Annotated[str | None, _OF_ALL] = None
    last_event_id: Annotated[str | None, _OF_OTHERS] = None
    session_id: Annotated[str | None, _OF_OTHERS] = None
    grip_id: Annotated[str | None, _OF_OTHERS] = None
    node_id: Annotated[str | None, _OF_OTHERS] = None
    project: Annotated[str | None, _OF_OTHERS] = None
    agent: Annotated[str | None, _of(DocumentKind.FACT)] = None
    role: Annotated[str, _OF_EVENT] = ""
    speaker: Annotated[str | None, _OF_EVENT] = None
    passage: Annotated[
        PassageAnswer | None,
        _OF_ALL,
        Meta(
            description="The part of the text that answers; null if the summary of a memory does."
        ),
    ] = None
    tool_name: str | None = None
    title: str = ""
    key: str = ""
    user: str | None = None
    content: str = ""
    text: str = ""
    truncated: bool = False
    show_all: Annotated[str, Meta(description="The command that shows the whole text.")] = ""
    score_parts: dict[str, float] = {}

    @classmethod
    def from_hit(cls, hit: Hit) -> Self:
        document, passage = hit.document, hit.passage
        return cls(
            kind=document.kind.value,
            id=_format_id(document),
            uri=hit.uri,
            score=hit.score,
            origin="local" if hit.origin == "local" else "team",
            person=hit.person or None,
            timestamp_ms=document.at_ms,
            namespace=document.namespace,
            domain=document.domain,
            tags=sorted(document.tags),
            spec=document.spec or None,
            status=document.status,
            relates_to=list(document.relates_to),
            event_id=hit.event_id or None,
            last_event_id=hit.last_event_id or None,
            session_id=document.session or None,
            grip_id=hit.grip_id or None,
            node_id=hit.node_id or None,
            project=document.project or None,
            agent=document.agent or None,
            role=document.role,
            speaker=document.speaker or None,
            passage=None if passage is None else PassageAnswer.from_passage(passage),
            tool_name=document.tool or None,
            title=document.title,
            text=document.text,
            truncated=hit.truncated,
            score_parts=dict(hit.parts),
        )

    def show(self, detail: str, *, whole: bool = False) -> Self:
        """Return the hit as JSON shows it: without the fields that its kind or the detail does not
        have. `whole` leaves the texts of `full` uncut, for callers without limits."""
        kind = DocumentKind(self.kind)
        shown: dict[str, Any] = dict.fromkeys(self.__struct_fields__, UNSET)
        shown |= {name: getattr(self, name) for name in _list_shown(kind, detail == "minimal")}
        shown["score"] = round(self.score, 4)
        shown["summary"] = self.format_summary()
        shown["timestamp"] = documents.format_iso(Millis(self.timestamp_ms))
        if detail != "minimal":
            shown |= self._show_text(kind, detail == "full", whole)
        return type(self)(**shown)

    def _show_text(self, kind: DocumentKind, full: bool, whole: bool) -> Mapping[str, Any]:
        shown: dict[str, Any] = {}
        if kind is DocumentKind.FACT:
            shown |= {"key": self.title, "user": self.speaker}
        if full or kind in (DocumentKind.EVENT, DocumentKind.FACT):
            text = self.text
            if not (full and whole):
                text = cut_text(text, MAX_HIT_CHARS if full else MAX_SUMMARY_TEXT)
            shown["content" if kind is DocumentKind.MEMORY else "text"] = text
            shown["truncated"] = self.truncated or len(text) < len(self.text)
            if shown["truncated"]:
                shown["show_all"] = self.format_command()
        if full:
            parts = self.score_parts.items()
            shown["score_parts"] = {name: round(part, 4) for name, part in parts}
        return shown

    def format_summary(self) -> str:
        """Return one line that describes the record."""
        summary = self.title or self.text[:1000]
        if self.kind == DocumentKind.FACT:
            summary = f"{self.title}: {self.text[:1000]}"
        line = " ".join(summary.split())
        return line if len(line) <= MAX_SUMMARY_LINE else line[: MAX_SUMMARY_LINE - 3] + "..."

    def format_command(self) -> str:
        """Return the command that shows the whole of a text that was cut."""
        return f"memory show {self.uri}"


_BRIEF = frozenset({"kind", "id", "uri", "origin", "person"})


@cache
def _list_shown(kind: DocumentKind, minimal: bool) -> frozenset[str]:
    """Return the fields that JSON takes from a hit of this kind as they are."""
    if minimal:
        return _BRIEF
    return _BRIEF.union(
        each.name
        for each in msgspec.structs.fields(HitAnswer)
        if kind
        in (getattr(msgspec.inspect.type_info(each.type), "extra", None) or {}).get("kinds", ())
    )


def cut_text(text: str, most: int) -> str:
    """Return the beginning: at most so many characters, and at most the bytes of a hit."""
    return text[:most].encode()[:MAX_HIT_BYTES].decode(errors="ignore")


def _format_id(document: documents.Document) -> str:
    """Return the id that people use: of a memory, its name within its domain."""
    if document.kind is not DocumentKind.MEMORY:
        return document.id
    name = memories.parse_urn(document.id)
    return f"{name.namespace}:{name.hex}:{name.index}"


class SearchPage(Struct, frozen=True, kw_only=True):
    """Hits, best first."""

    results: list[HitAnswer]
    total: Annotated[int, Meta(ge=0)]
    certain: Annotated[bool, Meta(description="False if no result is likely to be right.")]
    warning: str | None = None
    continuation_token: Annotated[
        str | None, Meta(description="Pass it as continuation_token to get what follows.")
    ] = None

    @classmethod
    def from_result(cls, result: RecallResult) -> Self:
        return cls(
            results=list(map(HitAnswer.from_hit, result.hits)),
            total=result.total,
            certain=result.certain,
            warning=result.warning,
            continuation_token=format_offset(result.next),
        )

    def show(self, detail: str, *, whole: bool = False) -> Self:
        """Return the page as JSON shows it."""
        results = [hit.show(detail, whole=whole) for hit in self.results]
        return msgspec.structs.replace(self, results=results)


class MemoryListing(Struct, frozen=True, kw_only=True):
    """Filters of memories. An empty one matches everything."""

    namespace: Filter = ""
    domain: Filter = ""
    tags: Annotated[tuple[str, ...], Meta(max_length=MAX_TAGS)] = ()
    status: (
        Annotated[
            MemoryStatus,
            Meta(description="`pending` awaits review; default: all but archived and tombstone."),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=0, le=MAX_LIMIT)] = 0
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)] = 0
    detail: Detail = "summary"


# For gRPC, and for commands, which show the fields themselves.
@operation("search.records", role=Role.READER, scoped=True, rpc="memory.MemoryService.Search")
def search_records(
    search: Search,
    recall: Recall,
    opening: Opening,
    resolver: ProjectResolver,
    caller: Caller,
    request: SearchMessage,
) -> SearchPage:
    """Search, and return hits with all their fields."""

    def resolve_domain(name: str) -> str:
        # An agent has a project, or is asked to name one; for others `project` is all of them.
        if caller.interface is Interface.MCP:
            return resolver.resolve_domain(name, caller)
        return search_filters.check_domain(name)

    query = request.to_query(
        recall.resolve_time,
        resolve_domain,
        resolve_session=opening.resolve_session,
        zone=caller.zone,
    )
    return SearchPage.from_result(search(query))


@operation(
    "search", role=Role.READER, scoped=True, http="GET /api/v1/search/", tool="memory_recall"
)
def search(
    search: Search,
    recall: Recall,
    opening: Opening,
    resolver: ProjectResolver,
    caller: Caller,
    request: SearchParameters,
) -> SearchPage:
    """Search everything recorded."""
    answer = search_records.function
    return answer(search, recall, opening, resolver, caller, request).show(request.detail)


@operation("memories.list", role=Role.READER, scoped=True, http="GET /api/v1/memories/")
def list_memories(recall: Recall, request: MemoryListing) -> SearchPage:
    """List memories, the newest first."""
    wanted = SearchParameters(
        kinds=(DocumentKind.MEMORY.value,),
        namespace=request.namespace,
        domain=request.domain,
        tags=request.tags,
        statuses=() if request.status is None else (request.status.value,),
        limit=request.limit,
        offset=request.offset,
    )
    result = recall.search(wanted.to_query(recall.resolve_time))
    return SearchPage.from_result(result).show(request.detail)
