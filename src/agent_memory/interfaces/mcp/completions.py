"""Completions of prompt arguments and resource URIs, from what is stored."""

from collections.abc import Iterable, Mapping

from mcp_types import Completion, PromptReference, ResourceTemplateReference

from agent_memory.features.index.model.queries import MAX_LIMIT, MAX_QUERY_CHARS, Query
from agent_memory.features.memories.model.memories import NAMESPACES
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.services.contents import Contents
from agent_memory.interfaces.mcp import resources, uris
from agent_memory.interfaces.mcp.prompts import PROMPTS
from agent_memory.interfaces.mcp.request_context import RequestContext, memory_scope
from agent_memory.interfaces.mcp.resources import TEMPLATES
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.text.untrusted import disarm

MOST = 100  # the limit of the protocol
_SUGGESTED = 20
_MAX_NODES = 1_000  # of the table of contents
_LEVELS = tuple(level.name.lower() for level in Level)


def complete(
    request: RequestContext,
    ref: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    resolved: Mapping[str, str],
) -> Completion:
    """Complete the argument `name` from its beginning `value`; `resolved` are the arguments that
    the user has already filled in."""
    if len(value) > MAX_QUERY_CHARS:
        raise InvalidInput(
            f"the value has {len(value):,} characters; the limit is {MAX_QUERY_CHARS:,}"
        )
    if isinstance(ref, PromptReference):
        values = _for_prompt(request, ref.name, name, value)
    else:
        if ref.uri not in {template.uri_template for template in TEMPLATES}:
            raise InvalidInput("no such template: resources/templates/list lists all")
        prefix = uris.to_plain(value).lower()
        candidates = _for_template(request, name, prefix, resolved)
        values = [candidate for candidate in candidates if _starts(candidate.lower(), prefix)]
    return Completion(values=values[:MOST], total=len(values), has_more=len(values) > MOST)


def _starts(candidate: str, prefix: str) -> bool:
    """Return whether the candidate starts with the prefix; `my-app` matches `project:my-app`."""
    return candidate.startswith(prefix) or candidate.partition(":")[2].startswith(prefix)


def _for_template(
    request: RequestContext, name: str, prefix: str, resolved: Mapping[str, str]
) -> Iterable[str]:
    match name:
        case "domain":
            return resources.list_domains(request)
        case "namespace":
            return NAMESPACES
        case "memory_id":
            return _memory_ids(request, resolved)
        case "node_id":
            return _node_ids(request, prefix)
        case _:
            return ()  # ids of events and the like: there are too many to list


def _memory_ids(request: RequestContext, resolved: Mapping[str, str]) -> list[str]:
    """List memories, newest first, by the last part of their URI."""
    domain, namespace = resolved.get("domain", ""), resolved.get("namespace", "")
    domains = [request.resolve_domain(uris.to_plain(domain))] if domain else request.list_nearby()
    scope = memory_scope(domains, namespace if namespace in NAMESPACES else "")
    hits = request.services[Recall].search(Query(text="", scope=scope, limit=MAX_LIMIT)).hits
    return [hit.uri.rpartition("/")[2] for hit in hits]


def _node_ids(request: RequestContext, prefix: str) -> list[str]:
    """List nodes from the newest year down to the level that the prefix names, up to a limit."""
    contents = request.services[Contents]
    node_ids = [node.node_id for node in contents.list_years()]
    waiting = list(node_ids)
    named = prefix.split(":")[1] if ":" in prefix else ""
    level = next((each for each in _LEVELS if named and each.startswith(named)), "")
    while level and waiting and len(node_ids) < _MAX_NODES:
        node = contents.get_node(waiting.pop(0))
        children = [] if node is None else list(node.child_ids)
        node_ids += children
        waiting += [child for child in children if not child.startswith(f"toc:{level}:")]
    return list(map(str, node_ids))


def _for_prompt(request: RequestContext, prompt: str, name: str, value: str) -> list[str]:
    if prompt not in {known.name for known in PROMPTS}:
        raise InvalidInput("no such prompt: prompts/list lists all")
    if name not in ("summary", "topic"):
        return []
    scope = memory_scope(request.list_nearby(), "decisions" if name == "summary" else "")
    prefix = " ".join(value.lower().split())
    newest = _titles(request, Query(text="", scope=scope, limit=MAX_LIMIT))
    titles = [title for title in newest if f" {prefix}" in f" {title.lower()}"]
    if " " in prefix:  # several words are enough to search by meaning
        titles += _titles(request, Query(text=value, scope=scope, limit=_SUGGESTED))
    return list(dict.fromkeys(titles))[:_SUGGESTED]


def _titles(request: RequestContext, query: Query) -> list[str]:
    hits = request.services[Recall].search(query, counted=False).hits
    return [disarm(hit.document.title) for hit in hits]
