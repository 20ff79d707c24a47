"""The filters of a search, parsed and checked in one place for every interface."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import TypeVar

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.log.model.events import EventRole
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ALL, ORG, PROJECT
from agent_memory.kernel.spelling import find_same, suggest_nearest

PLURALS = {
    "events": DocumentKind.EVENT,
    "segments": DocumentKind.SEGMENT,
    "grips": DocumentKind.GRIP,
    "memories": DocumentKind.MEMORY,
    "facts": DocumentKind.FACT,
}
# The words of every interface for where to look.
KIND_WORDS = (*PLURALS, *(kind.value for kind in PLURALS.values()), ALL)
# Not grips: each is part of an event.
DEFAULT_KINDS = frozenset(DocumentKind) - {DocumentKind.GRIP}
MEMORIES = frozenset({DocumentKind.MEMORY})
ROLES = tuple(role.name.lower() for role in EventRole)

E = TypeVar("E", bound=StrEnum)


def check_domain(name: str) -> str:
    """Check a domain of a filter: a full name, or `project` or `org` for all of these."""
    return name if name in (PROJECT, ORG) else memories.check_domain(name)


def parse_kinds(names: Collection[str]) -> frozenset[DocumentKind]:
    """Parse kinds in singular or plural, several with commas, or `all`. Raises InvalidInput."""
    words = [word.strip().lower() for name in names for word in name.split(",")]
    return frozenset(kind for word in words for kind in _parse_kind(word))


def _parse_kind(word: str) -> Collection[DocumentKind]:
    if word == ALL:
        return list(DocumentKind)
    plural = find_same(word, PLURALS)
    if plural is None:
        raise InvalidInput(_describe_wrong("kind", word, (*PLURALS, ALL)))
    return (PLURALS[plural],)


def parse_role(name: str) -> str:
    role = find_same(name, ROLES) if name else ""
    if role is None:
        raise InvalidInput(_describe_wrong("role", name, ROLES))
    return role


def split_domains(domain: str) -> list[str]:
    names = [name.strip() for name in domain.split(",")] if domain else []
    return [] if ALL in names else names


def parse_choice(choices: type[E], field: str, name: str) -> E:
    known = [choice.value for choice in choices]
    found = find_same(name, known)
    if found is None:
        raise InvalidInput(_describe_wrong(field, name, known))
    return choices(found)


def _describe_wrong(field: str, name: str, known: Sequence[str]) -> str:
    nearest = suggest_nearest(name, known, cutoff=0.6)
    return f"{field} is {name[:80]!r}; it must be one of {', '.join(known)}{nearest}"
