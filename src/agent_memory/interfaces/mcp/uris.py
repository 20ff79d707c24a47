"""URIs of resources: as they are written over MCP, and read in every spelling.

Clients in use take the colon of `subcog://project:my-app/...` for a port, so it is written `%3A`.
"""

from collections.abc import Iterator

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import SCHEME, Memory

CONTENTS = documents.CONTENTS
GRIPS = documents.GRIPS


def from_urn(urn: str) -> str:
    """A URN, or the URI of a namespace or a domain."""
    domain, slash, rest = urn.removeprefix(SCHEME).partition("/")
    return f"{SCHEME}{domain.replace(':', '%3A')}{slash}{rest}"


def to_plain(text: str) -> str:
    """As the rest of the product spells it; of a node or a grip by its URI, the id."""
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
    """Every URI, in every spelling, of what is another when this memory has changed."""
    for domain in dict.fromkeys((memory.domain, memories.get_family(memory.domain))):
        own = f"{SCHEME}{domain}"
        each = [own, f"{own}/{memory.namespace}"]
        if domain == memory.domain:
            each.append(memory.urn)
        for uri in each:
            yield from_urn(uri)
            if ":" in domain:
                yield uri
