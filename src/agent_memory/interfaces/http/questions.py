"""What is asked of recall over HTTP: what its filters mean, and how streams write it in JSON."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_QUERY_CHARS,
    Query,
    SearchMode,
    SearchScope,
)
from agent_memory.features.memories.model import memories
from agent_memory.features.recall.services.recall import Recall
from agent_memory.interfaces import wire
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, ORG, PROJECT, Millis

_NAME_CHARS = 300


def parse_domains(given: str) -> frozenset[str]:
    """Those that a filter means; `all`, or nothing, is any. Raises InvalidInput."""
    if given in ("", "all"):
        return frozenset()
    return frozenset({given if given in (PROJECT, ORG) else memories.check_domain(given)})


def parse_namespace(given: str) -> str:
    """Nothing is any. Raises InvalidInput."""
    return memories.check_namespace(given) if given else ""


class RecallRequest(BaseModel):
    """A query; empty, or `all`, lists the newest."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field("", max_length=MAX_QUERY_CHARS, examples=["why PostgreSQL"])
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    mode: SearchMode = SearchMode.HYBRID
    kinds: list[DocumentKind] = Field([DocumentKind.MEMORY], max_length=len(DocumentKind))
    namespace: str = Field("", max_length=_NAME_CHARS)
    domain: str = Field("all", max_length=_NAME_CHARS, examples=["project:my-app"])
    project: str = Field("", max_length=_NAME_CHARS)
    session_id: str = Field("", max_length=_NAME_CHARS)
    tags: list[str] = Field([], max_length=memories.MAX_TAGS)
    spec: str = Field("", max_length=_NAME_CHARS)
    since: str = Field("", max_length=_NAME_CHARS, examples=["last week"])
    until: str = Field("", max_length=_NAME_CHARS)
    min_similarity: float = Field(0.0, ge=0, le=1)
    include_archived: bool = False
    detail: Literal["minimal", "summary", "full"] = "summary"
    continuation_token: str = Field("", max_length=20)

    def to_query(self, recall: Recall) -> Query:
        """Raises InvalidInput."""
        return Query(
            text=self.query,
            mode=self.mode,
            limit=self.limit,
            offset=wire.parse_offset(self.continuation_token) if self.continuation_token else 0,
            min_score=self.min_similarity,
            scope=SearchScope(
                kinds=frozenset(self.kinds),
                project=self.project,
                session=self.session_id,
                namespace=parse_namespace(self.namespace),
                domains=parse_domains(self.domain),
                spec=self.spec,
                archived=self.include_archived,
                tags=frozenset(self.tags),
                since=recall.moments(self.since)[0] if self.since else Millis(0),
                until=recall.moments(self.until)[1] if self.until else Millis(MAX_MILLIS),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRecall:
    """An answer: each result, and what is told once all were."""

    results: list[dict[str, Any]]
    summary: dict[str, Any]


def parse_request(given: dict[str, Any]) -> RecallRequest:
    """Raises InvalidInput with what is wrong, and where."""
    try:
        return RecallRequest.model_validate(given)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{where}: {first['msg']}") from None


def run_recall(question: RecallRequest, recall: Recall) -> StreamedRecall:
    answer = recall.search(question.to_query(recall))
    told = wire.answer_json(answer, question.detail)
    results = told.pop("results")
    count = len(results)
    return StreamedRecall(
        results=[{"memory": each, "score": each["score"]} for each in results],
        summary={
            "success": True,
            "summary": f"Found {count}" + (f" of {answer.total}" if answer.total > count else ""),
            "result": told,
        },
    )
