"""The URIs of resources: written in one spelling, read in several.

Some clients take the colon of `subcog://project:my-app/...` for a port, so it is written `%3A`.
"""

from collections.abc import Iterator

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import SCHEME, Memory

CONTENTS = documents.CONTENTS
GRIPS = documents.GRIPS


def from_urn(urn: str) -> str:
    """Return the URI of a URN, or of the plain URI of a namespace or a domain; leave any other."""
    if not urn.startswith(SCHEME):
        return urn
    domain, slash, rest = urn.removeprefix(SCHEME).partition("/")
    return f"{SCHEME}{domain.replace(':', '%3A')}{slash}{rest}"


def to_plain(text: str) -> str:
    """Return a URI as everything but MCP spells it; for a node or a grip, its id."""
    spelled = text.strip().replace("%3A", ":").replace("%3a", ":")
    return spelled.removeprefix(f"{CONTENTS}/").removeprefix(f"{GRIPS}/")


def from_domain(domain: str) -> str:
    return from_urn(f"{SCHEME}{domain}")


def from_namespace(domain: str, namespace: str) -> str:
    return from_urn(f"{SCHEME}{domain}/{namespace}")


def from_node(node_id: str) -> str:
    return f"{CONTENTS}/{node_id}"


def from_grip(grip_id: str) -> str:
    return f"{GRIPS}/{grip_id}"


def list_affected(memory: Memory) -> Iterator[str]:
    """List the URIs, in every spelling, of the resources that change with this memory."""
    for domain in dict.fromkeys((memory.domain, memories.get_family(memory.domain))):
        plain = [f"{SCHEME}{domain}", f"{SCHEME}{domain}/{memory.namespace}"]
        if domain == memory.domain:
            plain.append(memory.urn)
        for uri in plain:
            yield from_urn(uri)
            if ":" in domain:
                yield uri
