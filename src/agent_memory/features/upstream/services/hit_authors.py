"""Mark memories and facts that came from other people of the team with their author."""

from dataclasses import dataclass, replace

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import TEAM, Hit, RecallResult
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.upstream.ports import TakenRecords
from agent_memory.kernel import access
from agent_memory.kernel.ids import KnowledgeId


@dataclass(frozen=True, slots=True)
class HitAuthors:
    taken: TakenRecords

    def attribute(self, answer: RecallResult) -> RecallResult:
        """Mark the hits of others. Leave out those that await the user's review: nobody here has
        accepted them yet."""
        keys = {hit.uri: hit.memory for hit in answer.hits if hit.memory is not None}
        facts = {
            hit.uri: KnowledgeId(hit.document.id)
            for hit in answer.hits
            if hit.document.kind is DocumentKind.FACT
        }
        if not keys and not facts:
            return answer
        origins = dict(
            zip(keys, self.taken.get_memory_origins(list(keys.values())), strict=True)
        ) | dict(zip(facts, self.taken.get_fact_origins(list(facts.values())), strict=True))
        caller = access.get_caller()
        own = "" if caller is None else caller.person
        people = {
            uri: origin.person
            for uri, origin in origins.items()
            if origin is not None and origin.person != own
        }
        if not people:
            return answer
        marked = [_mark(hit, people.get(hit.uri, "")) for hit in answer.hits]
        hits = tuple(hit for hit in marked if not _is_held(hit))
        return replace(answer, hits=hits, total=answer.total - len(marked) + len(hits))


def _mark(hit: Hit, person: str) -> Hit:
    return replace(hit, origin=TEAM, person=person) if person else hit


def _is_held(hit: Hit) -> bool:
    return bool(hit.person) and hit.document.status == MemoryStatus.PENDING
