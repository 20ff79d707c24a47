"""Ids of what is kept about knowledge: UUIDs, derived where something has a natural name."""

import uuid
from typing import NewType

KnowledgeId = NewType("KnowledgeId", str)

_SPACE = uuid.UUID("8f6a5c1e-0d7b-4d0e-9a53-5a9f1f0c2b77")


def derived(kind: str, *names: str) -> KnowledgeId:
    """The same for the same names. They are told apart by their lengths, whatever is in them."""
    parts = (kind, *names)
    lengths = ",".join(str(len(part)) for part in parts)
    return KnowledgeId(str(uuid.uuid5(_SPACE, f"{lengths}:{''.join(parts)}")))
