"""Completions: what an argument may become, from what is there."""

from collections.abc import Iterable, Mapping

from mcp_types import Completion, PromptReference, ResourceTemplateReference

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import MAX_LIMIT, MAX_QUERY_CHARS, Query, SearchScope
from agent_memory.features.memories.model.memories import NAMESPACES
from agent_memory.features.toc.model.periods import Level
from agent_memory.interfaces.mcp import resources, uris
from agent_memory.interfaces.mcp.prompts import PROMPTS
from agent_memory.interfaces.mcp.request_context import RequestContext
from agent_memory.interfaces.mcp.resources import TEMPLATES
from agent_memory.kernel.errors import InvalidInput

MOST = 100  # as the protocol has it
_SUGGESTED = 20
_DEEP = 1_000  # nodes looked at
_LEVELS = tuple(level.name.lower() for level in Level)


def complete(
    visit: RequestContext,
    ref: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    known: Mapping[str, str],
) -> Completion:
    """`known` are arguments that are settled."""
    if len(value) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"the value has {len(value):,} characters; the limit is {MAX_QUERY_CHARS:,}"
        )
    if isinstance(ref, PromptReference):
        found = _for_prompt(visit, ref.name, name, value)
    else:
        if ref.uri not in {each.uri_template for each in TEMPLATES}:
            raise InvalidInput("there is no such template: resources/templates/list has all")
        begun = uris.to_plain(value).lower()
        found = [each for each in _of_template(visit, name, begun, known) if _begins(each, begun)]
    return Completion(values=found[:MOST], total=len(found), has_more=len(found) > MOST)


def _begins(candidate: str, begun: str) -> bool:
    """Also `my-app` for `project:my-app`."""
    return candidate.lower().startswith(begun) or candidate.lower().partition(":")[2].startswith(
        begun
    )


def _of_template(
    visit: RequestContext, name: str, begun: str, known: Mapping[str, str]
) -> Iterable[str]:
    match name:
        case "domain":
            return resources.list_domains(visit)
        case "namespace":
            return NAMESPACES
        case "memory_id":
            return _memory_ids(visit, known)
        case "node_id":
            return _node_ids(visit, begun)
        case _:
            return ()  # of grips there are too many, and none can be known


def _memory_ids(visit: RequestContext, known: Mapping[str, str]) -> list[str]:
    """Newest first, as the last part of a URI."""
    domain, namespace = known.get("domain", ""), known.get("namespace", "")
    domains = [visit.resolve_domain(domain)] if domain else visit.list_nearby()
    scope = SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(domains or ()),
        namespace=namespace if namespace in NAMESPACES else "",
    )
    hits = visit.deps.recall.search(Query(text="", scope=scope, limit=MAX_LIMIT)).hits
    return [hit.uri.rpartition("/")[2] for hit in hits]


def _node_ids(visit: RequestContext, begun: str) -> list[str]:
    """Down to the level that the beginning names, as far as that is not too much: the first that
    are found, from the newest year on."""
    contents = visit.deps.contents
    found = [node.node_id for node in contents.roots()]
    waiting = list(found)
    named = begun.split(":")[1] if ":" in begun else ""
    level = next((each for each in _LEVELS if named and each.startswith(named)), "")
    while level and waiting and len(found) < _DEEP:
        node = contents.node(waiting.pop(0))
        below = [] if node is None else list(node.child_ids)
        found += below
        waiting += [each for each in below if not each.startswith(f"toc:{level}:")]
    return list(map(str, found))


def _for_prompt(visit: RequestContext, prompt: str, name: str, value: str) -> list[str]:
    chosen = next((each for each in PROMPTS if each.name == prompt), None)
    if chosen is None:
        raise InvalidInput("there is no such prompt: prompts/list has all")
    if name not in ("summary", "topic"):
        return []
    scope = SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(visit.list_nearby() or ()),
        namespace="decisions" if name == "summary" else "",
    )
    begun = " ".join(value.lower().split())
    newest = _titles(visit, Query(text="", scope=scope, limit=MAX_LIMIT))
    found = [each for each in newest if f" {begun}" in f" {each.lower()}"]
    if " " in begun:  # of several words the meaning may be known
        found += _titles(visit, Query(text=value, scope=scope, limit=_SUGGESTED))
    return list(dict.fromkeys(found))[:_SUGGESTED]


def _titles(visit: RequestContext, query: Query) -> list[str]:
    return [hit.document.title for hit in visit.deps.recall.search(query, counted=False).hits]
