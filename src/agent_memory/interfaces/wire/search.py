"""Search on the wire: requests from protobuf; hits and answers as protobuf and JSON.

`HIT_FIELDS` describes a hit once: JSON, protobuf, the schema of MCP and the commands that ask
another daemon all read it.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.index.model.queries import Hit, Passage, RecallResult
from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.features.memories.model import memories
from agent_memory.features.recall.model.contexts import Context
from agent_memory.features.recall.services.reasoning import Conclusion
from agent_memory.interfaces.search_request import SearchRequest
from agent_memory.proto import memory_pb2 as pb

Detail = Literal["minimal", "summary", "full"]

MAX_HIT_CHARS = 20_000  # of a hit's text
MAX_HIT_BYTES = 32_000  # likewise, so that a page of hits fits a message of 4 MiB
MAX_NAME_CHARS = 1_000  # of a hit's other texts in protobuf, which come from metadata
MAX_SUMMARY_TEXT = 2_000
MAX_SUMMARY_LINE = 200

_ALL = frozenset(DocumentKind)
_NONE: frozenset[DocumentKind] = frozenset()
_MEMORY = frozenset({DocumentKind.MEMORY})
_EVENT = frozenset({DocumentKind.EVENT})
_FACT = frozenset({DocumentKind.FACT})
_OTHERS = _ALL - _MEMORY
_TEXT = {"type": "string"}
_OPTIONAL = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_ORIGIN = {"type": "string", "enum": ["local", "team"]}
_MILLIS = {"type": "integer", "description": "Unix time in milliseconds."}


@dataclass(frozen=True, slots=True)
class HitField:
    """A field of a hit, with the same name in JSON and in protobuf."""

    name: str
    path: str  # of its value in a Hit
    kinds: frozenset[DocumentKind]  # the JSON of these has it; protobuf always does
    schema: dict[str, Any]

    def get(self, hit: Hit) -> Any:
        value = attrgetter(self.path)(hit)
        match value:
            case frozenset():
                return sorted(value)
            case tuple():
                return list(value)
            case "" if self.schema is _OPTIONAL:
                return None
            case _:
                return value


HIT_FIELDS = (
    HitField("origin", "origin", _ALL, _ORIGIN),
    HitField("person", "person", _ALL, _OPTIONAL),
    HitField("timestamp_ms", "document.at_ms", _ALL, _MILLIS),
    HitField("namespace", "document.namespace", _MEMORY, _TEXT),
    HitField("domain", "document.domain", _MEMORY, _TEXT),
    HitField("tags", "document.tags", _MEMORY, _TEXTS),
    HitField("spec", "document.spec", _MEMORY, _OPTIONAL),
    HitField("status", "document.status", _MEMORY, _TEXT),
    HitField("relates_to", "document.relates_to", _MEMORY, _TEXTS),
    HitField("event_id", "event_id", _ALL, _OPTIONAL),
    HitField("last_event_id", "last_event_id", _OTHERS, _OPTIONAL),
    HitField("session_id", "document.session", _OTHERS, _OPTIONAL),
    HitField("grip_id", "grip_id", _OTHERS, _OPTIONAL),
    HitField("node_id", "node_id", _OTHERS, _OPTIONAL),
    HitField("project", "document.project", _OTHERS, _OPTIONAL),
    HitField("agent", "document.agent", _FACT, _OPTIONAL),
    HitField("role", "document.role", _EVENT, _TEXT),
    HitField("speaker", "document.speaker", _EVENT, _OPTIONAL),
    HitField("tool_name", "document.tool", _NONE, _OPTIONAL),
)


PASSAGE_SCHEMA = {
    "type": ["object", "null"],
    "description": "The part of the text that answers; null if the summary of a memory does.",
    "properties": {
        "text": _TEXT,
        "start": {"type": "integer", "description": "In the whole text, in characters."},
        "end": {"type": "integer"},
        "marks": {
            "type": "array",
            "description": "The [start, end] of each matching word, counted in this text.",
            "items": {"type": "array", "items": {"type": "integer"}},
        },
    },
}


def parse_request(request: pb.SearchRequest) -> SearchRequest:
    has = request.HasField
    return SearchRequest(
        query=request.query,
        kinds=request.kinds,
        mode=request.mode or "hybrid",
        limit=request.limit,
        offset=parse_offset(request.continuation_token) if has("continuation_token") else 0,
        project=request.project,
        session_id=request.session_id,
        agent=request.agent,
        role=request.role,
        namespace=request.namespace,
        domain=request.domain,
        spec=request.spec,
        statuses=request.statuses,
        include_archived=request.include_archived,
        tags=request.tags,
        since=request.from_timestamp_ms if has("from_timestamp_ms") else "",
        until=request.to_timestamp_ms if has("to_timestamp_ms") else "",
        min_similarity=request.min_score,
    )


def answer_to_proto(answer: RecallResult) -> pb.SearchResponse:
    return pb.SearchResponse(
        hits=[_hit_to_proto(hit) for hit in answer.hits],
        total=answer.total,
        warning=answer.warning,
        continuation_token=format_offset(answer.next),
        certain=answer.certain,
    )


def _hit_to_proto(hit: Hit) -> pb.SearchHit:
    document = hit.document
    text = _cut(document.text, MAX_HIT_CHARS)
    values: dict[str, Any] = {field.name: field.get(hit) for field in HIT_FIELDS}
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = value[:MAX_NAME_CHARS]
    return pb.SearchHit(
        kind=document.kind,
        id=format_document_id(document),
        uri=hit.uri,
        score=hit.score,
        title=document.title,
        text=text,
        truncated=len(text) < len(document.text),
        score_parts=hit.parts,
        passage=None if hit.passage is None else _passage_to_proto(hit.passage),
        **values,
    )


def _passage_to_proto(passage: Passage) -> pb.Passage:
    marks = [pb.Mark(start=start, end=end) for start, end in passage.marks]
    return pb.Passage(text=passage.text, start=passage.start, end=passage.end, marks=marks)


def format_document_id(document: Document) -> str:
    """Return the id that people use: of a memory, its name within its domain."""
    if document.kind is not DocumentKind.MEMORY:
        return document.id
    name = memories.parse_urn(document.id)
    return f"{name.namespace}:{name.hex}:{name.index}"


def answer_json(answer: RecallResult, detail: str, *, whole: bool = False) -> dict[str, Any]:
    """Render an answer. `whole` leaves the texts of `full` uncut, for callers without limits."""
    return {
        "results": [hit_json(hit, detail, whole=whole) for hit in answer.hits],
        "total": answer.total,
        "certain": answer.certain,
        "warning": answer.warning,
        "continuation_token": format_offset(answer.next),
    }


def hit_json(hit: Hit, detail: str, *, whole: bool = False) -> dict[str, Any]:
    document, kind = hit.document, hit.document.kind
    result: dict[str, Any] = {
        "kind": kind.value,
        "id": format_document_id(document),
        "uri": hit.uri,
        "score": round(hit.score, 4),
        "summary": format_summary(document),
        "origin": hit.origin,
        "person": hit.person or None,
        "timestamp": documents.format_iso(document.at_ms),
    }
    if detail == "minimal":
        return result
    result |= {field.name: field.get(hit) for field in HIT_FIELDS if kind in field.kinds}
    result["passage"] = None if hit.passage is None else passage_json(hit.passage)
    if kind is DocumentKind.FACT:
        result |= {"key": document.title, "user": document.speaker or None}
    if detail == "full" or kind in (DocumentKind.EVENT, DocumentKind.FACT):
        most = MAX_HIT_CHARS if detail == "full" else MAX_SUMMARY_TEXT
        text = document.text if whole and detail == "full" else _cut(document.text, most)
        result["content" if kind is DocumentKind.MEMORY else "text"] = text
        result["truncated"] = hit.truncated or len(text) < len(document.text)
        if result["truncated"]:
            result["show_all"] = build_show_command(document)
    if detail == "full":
        result["score_parts"] = {name: round(part, 4) for name, part in hit.parts.items()}
    return result


def passage_json(passage: Passage) -> dict[str, Any]:
    return {
        "text": passage.text,
        "start": passage.start,
        "end": passage.end,
        "marks": [list(mark) for mark in passage.marks],
    }


def build_show_command(document: Document) -> str:
    """Return the command that shows the whole of a text that was cut."""
    return f"memory show {documents.build_uri(document)}"


def _cut(text: str, most: int) -> str:
    """Return the beginning: at most so many characters, and at most the bytes of a hit."""
    return text[:most].encode()[:MAX_HIT_BYTES].decode(errors="ignore")


def format_summary(document: Document) -> str:
    """Return one line that describes a document."""
    summary = document.title or document.text[:1000]
    if document.kind is DocumentKind.FACT:
        summary = f"{document.title}: {document.text[:1000]}"
    line = " ".join(summary.split())
    return line if len(line) <= MAX_SUMMARY_LINE else line[: MAX_SUMMARY_LINE - 3] + "..."


def reasoning_json(conclusion: Conclusion, detail: str) -> dict[str, Any]:
    return {
        "answer": conclusion.answer,
        "dates": list(conclusion.dates),
        "sources": [hit_json(hit, detail) for hit in conclusion.sources],
        **answer_json(conclusion.found, detail),
    }


def context_json(context: Context) -> dict[str, Any]:
    return {
        "context": context.text,
        "tokens": context.tokens,
        "resources": [hit_json(hit, "minimal") for hit in context.hits],
    }
