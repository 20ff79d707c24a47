"""How copies of a fact merge. Memories merge as `merge_copies` says."""

import hashlib
from dataclasses import dataclass, replace

from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.kernel import limits
from agent_memory.kernel.ids import KnowledgeId, Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTombstone:
    """A fact that was removed. It outweighs every value that the fact had until then.

    The id of a fact does not show its scope, so a tombstone only claims one. It counts for a fact
    of that scope alone: a sender who may write to one scope removes nothing of another.
    """

    id: KnowledgeId
    scope: str
    at_ms: Millis

    def __post_init__(self) -> None:
        limits.check_name("id", self.id)
        limits.check_name("scope", self.scope)
        limits.check_count("at_ms", self.at_ms)

    def outweighs(self, fact: "Fact | FactNote") -> bool:
        return fact.scope == self.scope and fact.valued_ms <= self.at_ms


@dataclass(frozen=True, slots=True)
class FactNote:
    """What must be known of a fact once it is gone: its scope, and the time of its last value."""

    scope: str
    valued_ms: Millis

    def build_tombstone(self, name: KnowledgeId, now: Millis) -> FactTombstone:
        """Return the tombstone of the fact. Its last value may be from a clock that is ahead."""
        return FactTombstone(id=name, scope=self.scope, at_ms=Millis(max(now, self.valued_ms)))


def note_fact(fact: Fact) -> FactNote:
    return FactNote(fact.scope, fact.valued_ms)


def merge_facts(one: Fact, other: Fact) -> Fact:
    """Return the copy with the later value. The order and number of merges do not matter. How often
    it was read is counted on each machine, so `one` keeps its count."""
    return replace(max(one, other, key=_order), access_count=one.access_count)


def is_same_fact(one: Fact, other: Fact) -> bool:
    """Tell whether two copies say the same. Confirmations do not travel by themselves."""
    return _order(one) == _order(other)


def derive_fact_id(fact: Fact) -> KnowledgeId:
    """Return the id that a fact must have."""
    return Claim(
        scope=fact.scope,
        agent_id=fact.agent_id,
        user_id=fact.user_id,
        key=fact.key,
        value=fact.value,
    ).fact_id


def _order(fact: Fact) -> tuple[int, bytes]:
    said = repr((fact.value, fact.fact_type, fact.session_id, fact.event_id))
    return fact.valued_ms, hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
