"""Resources as JSON: memories, namespaces, domains, and everything that was recorded."""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from mcp_types import Annotations, Resource, ResourceTemplate

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.queries import MAX_OFFSET, Hit, Query
from agent_memory.features.log.model.events import check_millis
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import NAMESPACES, SCHEME, MemoryStatus
from agent_memory.features.memories.operations import MemoryDetailsAnswer
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.model.contexts import NOTICE
from agent_memory.features.recall.search_operations import HitAnswer
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.operations import describe_node
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces import agent_answers
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.request_context import RequestContext, memory_scope
from agent_memory.interfaces.mcp.tools import render_hit, render_node
from agent_memory.interfaces.wire.opened import render_opened
from agent_memory.kernel.errors import ConfigError, InvalidInput, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, ORG, PROJECT, USER, Domain, Millis
from agent_memory.kernel.text.untrusted import disarm

PAGE = 50  # memories per page of the list
MAX_LISTED = 100  # memories in the resource of a namespace
JSON = "application/json"
MAX_URI_CHARS = 4_000  # a session's id may have 256 characters, each of 12 in a URI
_MOST_BYTES = 1 << 20  # of a resource
_MARGIN = 1_000  # bytes for the fields around the turns
_TURNS = ("before", "after", "events_before", "excerpt_events", "events_after")


def _template(uri: str, name: str, description: str) -> ResourceTemplate:
    return ResourceTemplate(uri_template=uri, name=name, description=description, mime_type=JSON)


TEMPLATES = (
    _template(
        "subcog://{domain}/{namespace}/{memory_id}",
        "Memory Resource",
        "A memory with its full content: subcog://project%3Amy-app/decisions/abc123def456:0",
    ),
    _template(
        "subcog://{domain}/{namespace}",
        "Namespace Listing",
        "The memories of a namespace, newest first: subcog://user/learnings",
    ),
    _template(
        "subcog://{domain}",
        "Domain Listing",
        "The namespaces of a domain, with counts: subcog://project%3Amy-app",
    ),
    _template(
        f"{uris.CONTENTS}/{{node_id}}",
        "Table of Contents",
        "A year, month, week, day or conversation, with its summary:"
        f" {uris.CONTENTS}/toc:day:2026-01-30",
    ),
    _template(
        f"{uris.GRIPS}/{{grip_id}}",
        "Source of a Summary",
        "The original conversation behind a summary, with the turns around it.",
    ),
    _template(
        f"{documents.EVENTS}/{{event_id}}",
        "Event",
        "A message or tool result, whole, with the turns around it.",
    ),
    _template(
        f"{documents.SESSIONS}/{{session_id}}",
        "Session",
        "A conversation: when, where, its segments, first prompt and last answer.",
    ),
    _template(
        f"{documents.FACTS}/{{fact_id}}", "Fact", "A fact that was learned, with earlier values."
    ),
    _template(
        f"{documents.LESSONS}/{{lesson_id}}",
        "Lesson",
        "What a session taught, with the messages that say it.",
    ),
)


class ResourcePage(NamedTuple):
    resources: list[Resource]
    cursor: str | None


class _Cursor(NamedTuple):
    """A position in the list: memories up to a time, without the first `skip` of them.

    A plain offset would make each page count all memories before it.
    """

    until: int
    skip: int


def list_resources(request: RequestContext, cursor: str | None) -> ResourcePage:
    """List namespaces with counts and the table of contents, then memories, newest first."""
    nearby = request.list_nearby()
    rows = [] if cursor else [*_namespaces(request, nearby), _CONTENTS]
    at = _parse_cursor(cursor) if cursor else _Cursor(MAX_MILLIS, 0)
    scope = replace(memory_scope(nearby), until=Millis(at.until))
    page = request.services[Recall].search(Query(text="", scope=scope, limit=PAGE, offset=at.skip))
    rows += [_memory(hit) for hit in page.hits]
    if page.next is None:
        return ResourcePage(rows, None)
    if not page.hits:  # all of them wait to be reviewed or erased
        return ResourcePage(rows, _format_cursor(_Cursor(at.until, page.next)))
    last = page.hits[-1].document.at_ms
    same = sum(hit.document.at_ms == last for hit in page.hits)
    return ResourcePage(
        rows, _format_cursor(_Cursor(last, same + (at.skip if last == at.until else 0)))
    )


def read(request: RequestContext, uri: str) -> str:
    """Return a resource as JSON. Raises NotFound."""
    return agent_answers.encode(
        agent_answers.cut({"notice": NOTICE, **_read_resource(request, uri)}, _MOST_BYTES)
    )


def list_domains(request: RequestContext) -> list[Domain]:
    """List the domains of the client and the domains that have memories."""
    near = request.list_nearby() or [USER]
    return list(dict.fromkeys((*near, *request.services[MemoryEditor].memories.list_domains())))


def _read_resource(request: RequestContext, uri: str) -> dict[str, Any]:
    if len(uri) > MAX_URI_CHARS:
        raise NotFound(f"no resource: the URI has more than {MAX_URI_CHARS:,} characters")
    plain = unquote(uri.strip())
    if plain.rstrip("/") == uris.CONTENTS:
        return {
            "uri": uris.CONTENTS,
            "children": [
                render_node(describe_node(node)) for node in request.services[Contents].list_years()
            ],
        }
    if plain.startswith(documents.SCHEME):
        return _record(request, uri.strip())
    if not plain.startswith(SCHEME):
        raise NotFound(f"no resource {uri!r}: a URI begins with {SCHEME} or memory://")
    domain, _, rest = plain.removeprefix(SCHEME).rstrip("/").partition("/")
    try:
        name = (
            request.resolve_domain(domain)
            if domain in (PROJECT, ORG)
            else memories.check_domain(domain)
        )
        if not rest:
            return _domain(request, name)
        namespace, _, memory_id = rest.partition("/")
        memories.check_namespace(namespace)
        if not memory_id:
            return _namespace(request, name, namespace)
        urn = f"{SCHEME}{name}/{namespace}/{memory_id}"
        memories.parse_urn(urn)
    except (InvalidInput, ConfigError) as exc:
        raise NotFound(f"no resource {uri!r}: {exc}") from exc
    shown = request.services[MemoryEditor].show(
        urn, request.services[ProjectResolver].find_here(request.caller)
    )
    answer = msgspec.to_builtins(MemoryDetailsAnswer.from_details(shown))
    return {**answer, "uri": uris.from_urn(shown.memory.urn)}


def _domain(request: RequestContext, domain: Domain) -> dict[str, Any]:
    if domain not in list_domains(request):
        raise NotFound(f"no memories in the domain {domain}")
    counts = {each: _count(request, domain, each) for each in NAMESPACES}
    return {
        "domain": domain,
        "uri": uris.from_domain(domain),
        "total": sum(counts.values()),
        "namespaces": [
            {"namespace": each, "uri": uris.from_namespace(domain, each), "count": count}
            for each, count in counts.items()
        ],
    }


def _namespace(request: RequestContext, domain: Domain, namespace: str) -> dict[str, Any]:
    if domain not in list_domains(request):
        raise NotFound(f"no memories in the domain {domain}")
    query = Query(text="", scope=memory_scope([domain], namespace), limit=MAX_LISTED)
    answer = request.services[Recall].search(query)
    listing: dict[str, Any] = {
        "domain": domain,
        "namespace": namespace,
        "uri": uris.from_namespace(domain, namespace),
        "total": answer.total,
        "memories": [render_hit(HitAnswer.from_hit(hit).show("summary")) for hit in answer.hits],
    }
    if answer.next is not None:
        listing["note"] = (
            f"Only the newest {MAX_LISTED} are listed. To page through all, call memory_recall with"
            f" namespace {namespace} and domain {domain}."
        )
    return listing


def _record(request: RequestContext, uri: str) -> dict[str, Any]:
    """Return a record. The turns around it get the room that it leaves."""
    shown = render_opened(request.services[Opening].open_uri(uri))
    turns = [name for name in _TURNS if name in shown]
    rest = {name: value for name, value in shown.items() if name not in turns}
    room = max(0, _MOST_BYTES - agent_answers.size(rest) - _MARGIN)
    return shown | {
        name: agent_answers.cut_evenly(shown[name], room // len(turns)) for name in turns
    }


def _count(request: RequestContext, domain: Domain, namespace: str = "") -> int:
    query = Query(text="", scope=memory_scope([domain], namespace), limit=1)
    return request.services[Recall].search(query).total


def _namespaces(request: RequestContext, nearby: list[Domain] | None) -> Iterator[Resource]:
    for domain in (
        request.services[MemoryEditor].memories.list_domains() if nearby is None else nearby
    ):
        if not _count(request, domain):
            continue
        for namespace in NAMESPACES:
            count = _count(request, domain, namespace)
            if count:
                noun = "memory" if count == 1 else "memories"
                yield Resource(
                    uri=uris.from_namespace(domain, namespace),
                    name=f"{domain}/{namespace}",
                    title=f"{namespace.capitalize()} of {domain} ({count})",
                    description=f"{count} {noun}, newest first",
                    mime_type=JSON,
                    annotations=Annotations(priority=0.8),
                )


_CONTENTS = Resource(
    uri=uris.CONTENTS,
    name="toc",
    title="Table of contents",
    description="All conversations by time: years, which lead to months, weeks, days and sessions",
    mime_type=JSON,
)


def _memory(hit: Hit) -> Resource:
    document, shown = hit.document, HitAnswer.from_hit(hit)
    when = documents.format_iso(document.at_ms)
    review = ", awaits review" if document.status == MemoryStatus.PENDING else ""
    return Resource(
        uri=uris.from_urn(hit.uri),
        name=shown.id,
        title=disarm(shown.format_summary()),
        description=f"{document.namespace} of {document.domain}, {when}{review}",
        mime_type=JSON,
        annotations=Annotations(last_modified=when),  # the text of a memory never changes
    )


def _format_cursor(at: _Cursor) -> str:
    return base64.urlsafe_b64encode(json.dumps(at).encode()).decode()


def _parse_cursor(text: str) -> _Cursor:
    try:
        until, skip = json.loads(base64.b64decode(text, b"-_", validate=True))
        check_millis("time", until)
        if not (type(until) is type(skip) is int and 0 <= skip <= MAX_OFFSET):
            raise ValueError("not a pair of numbers")
        return _Cursor(until, skip)
    except (ValueError, TypeError, binascii.Error, RecursionError, InvalidInput) as exc:
        raise InvalidInput(
            "cursor is not from this server: send it unchanged, or leave it out"
        ) from exc
