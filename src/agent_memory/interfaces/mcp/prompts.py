"""Prompts: ready-made questions of a user, with what is stored about them."""

from collections.abc import Mapping
from dataclasses import replace

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import MAX_QUERY_CHARS, Hit, Query, SearchScope
from agent_memory.features.memories.model.memories import MAX_CONTENT_BYTES, MAX_SUMMARY_CHARS
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import NOTICE, ContextRequest
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.kernel.errors import InvalidInput, NotFound

CAPTURE_DECISION = "capture-decision"
RECALL_CONTEXT = "recall-context"
MAX_RELATED = 5
MAX_FOUND = 15
TOKENS = 4_000  # of what is stored

PROMPTS = (
    Prompt(
        name=CAPTURE_DECISION,
        title="Capture a decision",
        description="Capture an architecture decision, beside what was decided before",
        arguments=[
            PromptArgument(name="summary", description="One-line summary", required=True),
            PromptArgument(
                name="context", description="Decision context and rationale", required=True
            ),
        ],
    ),
    Prompt(
        name=RECALL_CONTEXT,
        title="Recall context",
        description="Recall relevant context for a topic",
        arguments=[
            PromptArgument(name="topic", description="Topic to search for", required=True),
        ],
    ),
)
_LIMITS = {
    "summary": MAX_SUMMARY_CHARS,
    "context": MAX_CONTENT_BYTES,
    "topic": MAX_QUERY_CHARS,
}


def build_prompt(visit: RequestContext, name: str, given: Mapping[str, str]) -> GetPromptResult:
    prompt = next((each for each in PROMPTS if each.name == name), None)
    if prompt is None:
        known = ", ".join(each.name for each in PROMPTS)
        raise NotFound(f"there is no prompt {name[:100]!r}; there are {known}")
    arguments = {
        each.name: _argument(each.name, given.get(each.name, "")) for each in prompt.arguments or ()
    }
    texts = (
        _decision(visit, **arguments) if name == CAPTURE_DECISION else _topic(visit, **arguments)
    )
    return GetPromptResult(
        description=prompt.description,
        messages=[PromptMessage(role="user", content=TextContent(text=each)) for each in texts],
    )


def _argument(name: str, value: str) -> str:
    text = value.strip()
    if not text:
        raise InvalidInput(f"{name} is missing")
    if len(text) > _LIMITS[name]:
        raise InvalidInput(f"{name} has {len(text):,} characters; the limit is {_LIMITS[name]:,}")
    return text


def _decision(visit: RequestContext, summary: str, context: str) -> list[str]:
    scope = SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(visit.list_nearby() or ()),
        namespace="decisions",
    )
    before = _recall_text(
        visit, Query(text=f"{summary}\n{context}"[:MAX_QUERY_CHARS], scope=scope), MAX_RELATED
    )
    ask = (
        "We have taken a decision. Keep it with the tool memory_capture: namespace `decisions`, the"
        " summary below (shortened to 100 characters if need be), and as content, in markdown, its"
        " context, the decision, the alternatives that were considered, and its consequences, as"
        " far as they are known."
    )
    if before:
        ask += (
            " What was decided before on the subject stands below: name in `relates_to` the ids of"
            " those that it has to do with, and tell me first if it contradicts one, or says the"
            " same."
        )
    else:
        ask += " Nothing was decided before on the subject, as far as the memory knows."
    return [f"{ask}\n\nSummary: {summary}\n\nContext:\n{context}", *before]


def _topic(visit: RequestContext, topic: str) -> list[str]:
    kinds = frozenset({DocumentKind.MEMORY, DocumentKind.SEGMENT, DocumentKind.GRIP})
    nearby = visit.list_nearby()
    memories = SearchScope(kinds=frozenset({DocumentKind.MEMORY}), domains=frozenset(nearby or ()))
    project = nearby[0].partition(":")[2] if nearby else ""
    spoken = SearchScope(kinds=kinds - {DocumentKind.MEMORY}, project=project)
    found = [
        *_hits(visit, Query(text=topic, scope=memories, limit=MAX_FOUND)),
        *_hits(visit, Query(text=topic, scope=spoken, limit=MAX_FOUND)),
    ]
    text = _render_hits(found)
    if not text:
        return [f"Nothing is stored about this topic yet: {topic}"]
    ask = (
        f"Take into account what is known from earlier work about: {topic}\n\nWhat was found stands"
        " below, with its relevance from 0 to 1. memory_recall finds more, and resources can be"
        " read at their URIs. Say where what you know from it comes from, and what of it seems"
        " outdated."
    )
    return [ask, text]


def _recall_text(visit: RequestContext, query: Query, limit: int) -> list[str]:
    text = _render_hits(_hits(visit, replace(query, limit=limit)))
    return [text] if text else []


def _hits(visit: RequestContext, query: Query) -> list[Hit]:
    if query.is_listing:  # the topic "all" is a word here
        return []
    hits = visit.deps.recall.search(query).hits
    return [replace(hit, uri=uris.from_urn(hit.uri)) if hit.uri else hit for hit in hits]


def _render_hits(hits: list[Hit]) -> str:
    text = contexts.build(ContextRequest(tokens=TOKENS), hits).text
    return f"{NOTICE}\n{text}" if text else ""
