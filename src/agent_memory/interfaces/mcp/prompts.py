"""Prompts: ready-made requests of a user, together with related memories."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import MAX_QUERY_CHARS, Hit, Query, SearchScope
from agent_memory.features.memories.model.memories import MAX_CONTENT_BYTES, MAX_SUMMARY_CHARS
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import NOTICE, ContextItem, ContextRequest
from agent_memory.features.recall.services.recall import Recall
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.request_context import RequestContext, memory_scope
from agent_memory.kernel.errors import InvalidInput, NotFound

CAPTURE_DECISION = "capture-decision"
RECALL_CONTEXT = "recall-context"
MAX_RELATED = 5
MAX_FOUND = 15
TOKENS = 4_000  # of text from memory

PROMPTS = (
    Prompt(
        name=CAPTURE_DECISION,
        title="Capture a decision",
        description="Capture an architecture decision, next to earlier decisions",
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


def build_prompt(
    request: RequestContext, name: str, arguments: Mapping[str, str]
) -> GetPromptResult:
    prompt = next((known for known in PROMPTS if known.name == name), None)
    if prompt is None:
        names = ", ".join(known.name for known in PROMPTS)
        raise NotFound(f"no prompt {name[:100]!r}: the prompts are {names}")
    checked = {
        argument.name: _check_argument(argument.name, arguments.get(argument.name, ""))
        for argument in prompt.arguments or ()
    }
    build: Callable[..., list[str]] = _build_decision if name == CAPTURE_DECISION else _build_topic
    return GetPromptResult(
        description=prompt.description,
        messages=[
            PromptMessage(role="user", content=TextContent(text=text))
            for text in build(request, **checked)
        ],
    )


def _check_argument(name: str, value: str) -> str:
    text = value.strip()
    if not text:
        raise InvalidInput(f"the argument {name} is missing")
    if len(text) > _LIMITS[name]:
        raise InvalidInput(f"{name} has {len(text):,} characters; the limit is {_LIMITS[name]:,}")
    return text


def _build_decision(request: RequestContext, summary: str, context: str) -> list[str]:
    scope = memory_scope(request.list_nearby(), "decisions")
    query = Query(text=f"{summary}\n{context}"[:MAX_QUERY_CHARS], scope=scope, limit=MAX_RELATED)
    earlier = _render_hits(_hits(request, query))
    ask = (
        "We have made a decision. Store it with the tool memory_capture: namespace `decisions`, the"
        " summary below (shortened to 100 characters if need be), and as content, in markdown, its"
        " context, the decision, the alternatives we considered, and its consequences, as far as"
        " they are known."
    )
    if earlier:
        ask += (
            " Earlier decisions on the subject are below: list the ids of the related ones in"
            " `relates_to`. If it contradicts or repeats one of them, tell me first."
        )
    else:
        ask += " The memory has no earlier decision on the subject."
    ask += f"\n\nSummary: {summary}\n\nContext:\n{context}"
    return [ask, earlier] if earlier else [ask]


def _build_topic(request: RequestContext, topic: str) -> list[str]:
    nearby = request.list_nearby()
    project = nearby[0].partition(":")[2] if nearby else ""
    conversations = SearchScope(
        kinds=frozenset({DocumentKind.SEGMENT, DocumentKind.GRIP}), project=project
    )
    hits = [
        *_hits(request, Query(text=topic, scope=memory_scope(nearby), limit=MAX_FOUND)),
        *_hits(request, Query(text=topic, scope=conversations, limit=MAX_FOUND)),
    ]
    text = _render_hits(hits)
    if not text:
        return [f"The memory has nothing about this topic yet: {topic}"]
    ask = (
        f"Take into account what earlier work says about: {topic}\n\nThe search results are below,"
        " each with its relevance from 0 to 1. memory_recall finds more; read a resource at its URI"
        " for the whole of it. Name your sources, and say what seems outdated."
    )
    return [ask, text]


def _hits(request: RequestContext, query: Query) -> list[Hit]:
    if query.is_listing:  # a listing is not an answer to the topic "all"
        return []
    hits = request.services[Recall].search(query).hits
    return [replace(hit, uri=uris.from_urn(hit.uri)) for hit in hits]


def _render_hits(hits: list[Hit]) -> str:
    items = [ContextItem(hit=hit) for hit in hits]
    text = contexts.build(ContextRequest(tokens=TOKENS), items).text
    return f"{NOTICE}\n{text}" if text else ""
