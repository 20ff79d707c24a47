"""Resources: memories, namespaces, domains, nodes of the table of contents, and grips, as JSON."""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote

from mcp_types import Annotations, Resource, ResourceTemplate

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import MAX_OFFSET, Hit, Query, SearchScope
from agent_memory.features.log.model.events import check_millis
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import NAMESPACES, SCHEME
from agent_memory.features.recall.model.contexts import NOTICE
from agent_memory.interfaces.mcp import budgets, uris
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.interfaces.mcp.tools import render_hit, render_node
from agent_memory.interfaces.wire.memories import memory_details_json
from agent_memory.interfaces.wire.search import format_document_id, format_summary
from agent_memory.interfaces.wire.toc import expansion_json
from agent_memory.kernel.errors import ConfigError, InvalidInput, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, ORG, PROJECT, USER, Domain, Millis

PAGE = 50  # memories that are listed at a time
MAX_LISTED = 100  # memories of a namespace that are told when it is read
JSON = "application/json"
MAX_URI_CHARS = 1_000
_MOST_BYTES = 1 << 20  # of what is read

TEMPLATES = (
    ResourceTemplate(
        uri_template="subcog://{domain}/{namespace}/{memory_id}",
        name="Memory Resource",
        description="A memory, whole: subcog://project%3Amy-app/decisions/abc123def456:0",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="subcog://{domain}/{namespace}",
        name="Namespace Listing",
        description="The memories of a namespace, newest first: subcog://user/learnings",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template="subcog://{domain}",
        name="Domain Listing",
        description="The namespaces of a domain, with counts: subcog://project%3Amy-app",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template=f"{uris.CONTENTS}/{{node_id}}",
        name="Table of Contents",
        description="A year, month, week, day or conversation, with its summary:"
        f" {uris.CONTENTS}/toc:day:2026-01-30",
        mime_type=JSON,
    ),
    ResourceTemplate(
        uri_template=f"{uris.GRIPS}/{{grip_id}}",
        name="Source of a Summary",
        description="What was said, word by word, and the turns around it.",
        mime_type=JSON,
    ),
)


class ResourcePage(NamedTuple):
    resources: list[Resource]
    cursor: str | None


class _Cursor(NamedTuple):
    """Memories up to this moment, without the first so many of it: no page counts all before."""

    until: int
    skip: int


def list_resources(visit: RequestContext, cursor: str | None) -> ResourcePage:
    """Namespaces with counts and the table of contents first, then memories, newest first."""
    nearby = visit.list_nearby()
    found = [] if cursor else [*_namespaces(visit, nearby), _CONTENTS]
    at = _parse_cursor(cursor) if cursor else _Cursor(MAX_MILLIS, 0)
    scope = replace(_scope(nearby), until=Millis(at.until))
    page = visit.deps.recall.search(Query(text="", scope=scope, limit=PAGE, offset=at.skip))
    found += [_memory(hit) for hit in page.hits]
    if page.next is None or not page.hits:
        return ResourcePage(found, None)
    last = page.hits[-1].document.at_ms
    same = sum(hit.document.at_ms == last for hit in page.hits)
    return ResourcePage(
        found, _format_cursor(_Cursor(last, same + (at.skip if last == at.until else 0)))
    )


def read(visit: RequestContext, uri: str) -> str:
    """What is there, as JSON. Raises NotFound."""
    return budgets.encode(
        budgets.cut({"notice": NOTICE, **_read_resource(visit, uri)}, _MOST_BYTES)
    )


def list_domains(visit: RequestContext) -> list[Domain]:
    """Those that have memories, and those that the visitor works with."""
    near = visit.list_nearby() or [USER]
    return list(dict.fromkeys((*near, *visit.deps.curation.memories.list_domains())))


def _read_resource(visit: RequestContext, uri: str) -> dict[str, Any]:
    if len(uri) > MAX_URI_CHARS:
        raise NotFound("there is no resource of so long a name")
    given = unquote(uri.strip())
    if given.rstrip("/") == uris.CONTENTS:
        return {
            "uri": uris.CONTENTS,
            "children": [render_node(each) for each in visit.deps.contents.roots()],
        }
    if given.startswith(f"{uris.CONTENTS}/"):
        return _node(visit, given.removeprefix(f"{uris.CONTENTS}/"))
    if given.startswith(f"{uris.GRIPS}/"):
        return _grip(visit, given.removeprefix(f"{uris.GRIPS}/"))
    if not given.startswith(SCHEME):
        raise NotFound(f"no resource {uri!r}: URIs begin with {SCHEME}, or with memory://")
    domain, _, rest = given.removeprefix(SCHEME).rstrip("/").partition("/")
    try:
        name = (
            visit.resolve_domain(domain)
            if domain in (PROJECT, ORG)
            else memories.check_domain(domain)
        )
        if not rest:
            return _domain(visit, name)
        namespace, _, memory_id = rest.partition("/")
        memories.check_namespace(namespace)
        if not memory_id:
            return _namespace(visit, name, namespace)
        memories.parse_urn(f"{SCHEME}{name}/{namespace}/{memory_id}")
    except (InvalidInput, ConfigError) as exc:
        raise NotFound(f"no resource {uri!r}: {exc}") from exc
    shown = visit.deps.curation.show(f"{SCHEME}{name}/{namespace}/{memory_id}", visit.find_here())
    return {**memory_details_json(shown), "uri": uris.from_urn(shown.memory.urn)}


def _domain(visit: RequestContext, domain: Domain) -> dict[str, Any]:
    if domain not in list_domains(visit):
        raise NotFound(f"nothing is known of {domain}")
    counts = {each: _count(visit, domain, each) for each in NAMESPACES}
    return {
        "domain": domain,
        "uri": uris.from_domain(domain),
        "total": sum(counts.values()),
        "namespaces": [
            {"namespace": each, "uri": uris.from_namespace(domain, each), "count": count}
            for each, count in counts.items()
        ],
    }


def _namespace(visit: RequestContext, domain: Domain, namespace: str) -> dict[str, Any]:
    if domain not in list_domains(visit):
        raise NotFound(f"nothing is known of {domain}")
    query = Query(text="", scope=_scope([domain], namespace), limit=MAX_LISTED)
    answer = visit.deps.recall.search(query)
    told: dict[str, Any] = {
        "domain": domain,
        "namespace": namespace,
        "uri": uris.from_namespace(domain, namespace),
        "total": answer.total,
        "memories": [render_hit(hit, "summary") for hit in answer.hits],
    }
    if answer.next is not None:
        told["note"] = (
            f"The newest {MAX_LISTED} are told; memory_recall with namespace {namespace} and domain"
            f" {domain} pages through all."
        )
    return told


def _node(visit: RequestContext, node_id: str) -> dict[str, Any]:
    node = visit.deps.contents.node(node_id)
    if node is None:
        raise NotFound(f"there is no node {node_id!r} in the table of contents")
    children = [{"node_id": each, "uri": uris.from_node(each)} for each in node.child_ids]
    grips = [{"grip_id": each, "uri": uris.from_grip(each)} for each in sorted(node.grip_ids())]
    return {**render_node(node), "children": children, "grips": grips}


def _grip(visit: RequestContext, grip_id: str) -> dict[str, Any]:
    found = visit.deps.contents.expand(grip_id) if grip_id else None
    if found is None or found.grip is None:
        raise NotFound(f"there is no grip {grip_id!r}")
    share = _MOST_BYTES // 4  # of long events, the beginning
    shown = expansion_json(found)
    events = {
        name: budgets.cut_evenly(shown[name], share)
        for name in ("events_before", "excerpt_events", "events_after")
    }
    return {**shown, **events, "uri": uris.from_grip(grip_id)}


def _scope(domains: list[Domain] | None, namespace: str = "") -> SearchScope:
    return SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(domains or ()),
        namespace=namespace,
    )


def _count(visit: RequestContext, domain: Domain, namespace: str = "") -> int:
    query = Query(text="", scope=_scope([domain], namespace), limit=1)
    return visit.deps.recall.search(query).total


def _namespaces(visit: RequestContext, nearby: list[Domain] | None) -> Iterator[Resource]:
    for domain in visit.deps.curation.memories.list_domains() if nearby is None else nearby:
        if not _count(visit, domain):
            continue
        for namespace in NAMESPACES:
            count = _count(visit, domain, namespace)
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
    description="All conversations by time: the years, from which the rest is reached",
    mime_type=JSON,
)


def _memory(hit: Hit) -> Resource:
    document = hit.document
    when = documents.format_iso(document.at_ms)
    return Resource(
        uri=uris.from_urn(hit.uri),
        name=format_document_id(document),
        title=format_summary(document),
        description=f"{document.namespace} of {document.domain}, {when}",
        mime_type=JSON,
        annotations=Annotations(last_modified=when),  # what it says never changes
    )


def _format_cursor(at: _Cursor) -> str:
    return base64.urlsafe_b64encode(json.dumps(at).encode()).decode()


def _parse_cursor(text: str) -> _Cursor:
    try:
        until, skip = json.loads(base64.b64decode(text, b"-_", validate=True))
        check_millis("time", until)
        if not (type(until) is type(skip) is int and 0 <= skip <= MAX_OFFSET):
            raise ValueError("no number")
        return _Cursor(until, skip)
    except (ValueError, TypeError, binascii.Error, RecursionError, InvalidInput) as exc:
        raise InvalidInput(
            "cursor is not one that this server gave: pass it on unchanged, or leave it out"
        ) from exc
