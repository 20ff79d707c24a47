"""Facts as documents of the search index."""

from agent_memory.features.index.model.documents import Document, DocumentKind, fact_owner
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.kernel.ids import PROJECT, USER


def from_fact(fact: Fact) -> Document:
    family, _, name = fact.scope.partition(":")
    return Document(
        kind=DocumentKind.FACT,
        id=fact.id,
        owner=fact_owner(fact.id),
        at_ms=fact.valued_ms,
        title=fact.key,
        text=fact.value,
        project=name if family == PROJECT else "",
        domain=fact.scope if family == USER else "",  # on a team server it is private to a person
        agent=fact.agent_id or "",
        speaker=fact.user_id or "",
    )
