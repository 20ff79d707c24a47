"""Search requests over HTTP, and answers as streams send them."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    MAX_QUERY_CHARS,
    MAX_TAGS,
    Query,
    Search,
    SearchMode,
)
from agent_memory.features.log.model.tokens import parse_offset
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.recall import Recall
from agent_memory.interfaces.search_request import KIND_WORDS, SearchRequest
from agent_memory.interfaces.wire.search import Detail, answer_json
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ALL, MAX_MILLIS

_NAME_CHARS = 300


class SearchFilters(BaseModel):
    """A query and its filters. An empty query, or `all`, lists the newest."""

    query: str = Field("", max_length=MAX_QUERY_CHARS, examples=["why PostgreSQL"])
    mode: SearchMode = SearchMode.HYBRID
    kinds: list[Annotated[str, Field(json_schema_extra={"enum": [*KIND_WORDS]})]] = Field(
        [],
        max_length=10,
        description="Default: all but grip; without a query, or with a filter that only memories"
        " have, memory.",
    )
    namespace: str = Field("", max_length=_NAME_CHARS)
    domain: str = Field(ALL, max_length=_NAME_CHARS, examples=["project:my-app"])
    project: str = Field("", max_length=_NAME_CHARS)
    session_id: str = Field("", max_length=_NAME_CHARS)
    agent: str = Field("", max_length=_NAME_CHARS)
    role: str = Field("", max_length=_NAME_CHARS, examples=["assistant"])
    tags: list[str] = Field([], max_length=MAX_TAGS)
    spec: str = Field("", max_length=_NAME_CHARS)
    statuses: list[MemoryStatus] = Field([], max_length=len(MemoryStatus))
    include_archived: bool = False
    detail: Detail = "summary"


class SearchParameters(SearchFilters):
    """The parameters of `GET /api/v1/search/`."""

    limit: int = Field(0, ge=0, le=MAX_LIMIT)
    offset: int = Field(0, ge=0, le=MAX_OFFSET)
    since: int = Field(
        0, ge=0, le=MAX_MILLIS, alias="from_timestamp_ms", description="Unix milliseconds."
    )
    until: int = Field(
        MAX_MILLIS, ge=0, le=MAX_MILLIS, alias="to_timestamp_ms", description="Unix milliseconds."
    )
    min_similarity: float = Field(0.0, ge=0, le=1, alias="min_score")

    def to_query(self, services: Composition) -> Query:
        return _to_query(SearchRequest(**self.model_dump(exclude={"detail"})), services)


class RecallRequest(SearchFilters):
    """A query and its filters. An empty query, or `all`, lists the newest."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    since: str = Field("", max_length=_NAME_CHARS, examples=["last week"])
    until: str = Field("", max_length=_NAME_CHARS)
    min_similarity: float = Field(0.0, ge=0, le=1)
    continuation_token: str = Field("", max_length=20)

    def to_query(self, services: Composition) -> Query:
        offset = parse_offset(self.continuation_token) if self.continuation_token else 0
        filters = self.model_dump(exclude={"detail", "continuation_token"})
        return _to_query(SearchRequest(**filters, offset=offset), services)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRecall:
    """An answer: one message for each result, and one that completes it."""

    results: list[dict[str, Any]]
    summary: dict[str, Any]


def parse_request(fields: dict[str, Any]) -> RecallRequest:
    """Parse a recall request. Raises InvalidInput, which names the wrong field."""
    try:
        return RecallRequest.model_validate(fields)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{where}: {first['msg']}") from None


def _to_query(request: SearchRequest, services: Composition) -> Query:
    return request.to_query(
        services[Recall].resolve_time, resolve_session=services[Opening].resolve_session
    )


def run_recall(request: RecallRequest, services: Composition) -> StreamedRecall:
    answer = services[Search](request.to_query(services))
    result = answer_json(answer, request.detail)
    hits = result.pop("results")
    count = len(hits)
    return StreamedRecall(
        results=[{"memory": hit, "score": hit["score"]} for hit in hits],
        summary={
            "success": True,
            "summary": f"Found {count}" + (f" of {answer.total}" if answer.total > count else ""),
            "result": result,
        },
    )
