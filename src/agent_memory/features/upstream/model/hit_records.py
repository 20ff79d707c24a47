"""Questions and hits as JSON, between a machine and a team's server."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import (
    TEAM,
    Hit,
    Passage,
    Query,
    RecallResult,
    SearchMode,
    SearchScope,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis

MAX_HIT_CHARS = 20_000
_TEXTS = tuple(
    field.name for field in fields(Document) if field.type is str or field.name in ("id", "text")
)
_PLACES = ("uri", "event_id", "last_event_id", "grip_id", "node_id", "person")
_SETS = ("kinds", "domains", "statuses", "tags")


def encode_question(query: Query, scope: SharedScope) -> dict[str, Any]:
    asked = asdict(query.scope)
    return {
        "query": query.text,
        "mode": query.mode.value,
        "limit": query.limit,
        "min_score": query.min_score,
        "scope": asked | {name: sorted(map(str, asked[name])) for name in _SETS},
        "projects": sorted(scope.names),
    }


def decode_question(content: Mapping[str, Any]) -> tuple[Query, SharedScope]:
    """Decode a question. Raises InvalidInput."""
    scope = content.get("scope")
    if not isinstance(scope, Mapping):
        raise InvalidInput("scope must be an object")
    known = {field.name for field in fields(SearchScope)}
    asked = {name: value for name, value in scope.items() if name in known}
    try:
        for name in _SETS:
            asked[name] = frozenset(map(str, asked.get(name, ())))
        asked["kinds"] = frozenset(map(DocumentKind, asked["kinds"]))
        query = Query(
            text=str(content.get("query", "")),
            mode=SearchMode(str(content.get("mode", ""))),
            limit=int(content.get("limit", 0)),
            min_score=float(content.get("min_score", 0.0)),
            scope=SearchScope(**asked),
        )
        return query, SharedScope.parse(map(str, content.get("projects", ())))
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"the question is not valid: {exc}") from exc


def encode_result(result: RecallResult) -> dict[str, Any]:
    return {
        "hits": [_encode_hit(hit) for hit in result.hits],
        "total": result.total,
        "warning": result.warning,
        "certain": result.certain,
    }


def decode_result(content: Mapping[str, Any]) -> RecallResult:
    """Decode the answer of a server. Raises InvalidInput."""
    try:
        return RecallResult(
            hits=tuple(_decode_hit(hit) for hit in content["hits"]),
            total=int(content["total"]),
            warning=None if content.get("warning") is None else str(content["warning"]),
            certain=content.get("certain") is True,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise InvalidInput(f"the server sent no valid answer: {exc}") from exc


def _encode_hit(hit: Hit) -> dict[str, Any]:
    document = hit.document
    passage = hit.passage
    return {
        "kind": document.kind.value,
        "at_ms": document.at_ms,
        **{name: getattr(document, name) for name in _TEXTS},
        "text": document.text[:MAX_HIT_CHARS],
        "tags": sorted(document.tags),
        "relates_to": list(document.relates_to),
        "score": hit.score,
        "parts": dict(hit.parts),
        "truncated": hit.truncated or len(document.text) > MAX_HIT_CHARS,
        "passage": None
        if passage is None
        else {"text": passage.text, "start": passage.start, "marks": passage.marks},
        **{name: getattr(hit, name) for name in _PLACES},
    }


def _decode_hit(content: Mapping[str, Any]) -> Hit:
    passage = content.get("passage")
    return Hit(
        document=Document(
            kind=DocumentKind(content["kind"]),
            owner=Owner(""),
            at_ms=Millis(int(content["at_ms"])),
            tags=frozenset(map(str, content["tags"])),
            relates_to=tuple(map(str, content["relates_to"])),
            **{name: str(content[name]) for name in _TEXTS},
        ),
        score=float(content["score"]),
        parts={str(name): float(part) for name, part in content["parts"].items()},
        truncated=content["truncated"] is True,
        passage=None if passage is None else _decode_passage(passage),
        origin=TEAM,
        uri=str(content["uri"]),
        event_id=str(content["event_id"]),
        last_event_id=str(content["last_event_id"]),
        grip_id=str(content["grip_id"]),
        node_id=str(content["node_id"]),
        person=str(content["person"]),
    )


def _decode_passage(content: Mapping[str, Any]) -> Passage:
    marks = tuple((int(start), int(end)) for start, end in content["marks"])
    return Passage(text=str(content["text"]), start=int(content["start"]), marks=marks)
