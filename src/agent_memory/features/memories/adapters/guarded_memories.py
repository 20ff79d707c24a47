"""The memories of a team server: each caller sees and writes those of their projects and their
own."""

from collections import Counter
from collections.abc import Callable, Sequence

from agent_memory.features.memories.adapters.memory_store import MemoryOutlines, StoredMemories
from agent_memory.features.memories.model.memories import Memory, MemoryOutline
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.kernel import access
from agent_memory.kernel.ids import Domain, MemoryKey


class GuardedMemories(StoredMemories):
    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        return super().find_by_digest(domain, namespace, start) if _sees(domain) else []

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        return super().list_domain(domain, after=after, limit=limit) if _sees(domain) else []

    def list_domains(self) -> list[Domain]:
        return [domain for domain in super().list_domains() if _sees(domain)]

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        """Write durably. Raises Forbidden."""
        for change in changes:
            access.check_may_write("memories", change.after.domain)
        return super().write(changes)


class GuardedOutlines(MemoryOutlines):
    def count_groups(self) -> Counter[MemoryOutline]:
        groups = super().count_groups()
        return Counter({group: n for group, n in groups.items() if _sees(group.key.domain)})

    def find_newest(
        self, admits: Callable[[MemoryOutline], bool], /, *, limit: int
    ) -> list[MemoryKey]:
        return super().find_newest(
            lambda outline: _sees(outline.key.domain) and admits(outline), limit=limit
        )

    def find_superseded(self, domain: Domain, /) -> dict[str, list[MemoryKey]]:
        return super().find_superseded(domain) if _sees(domain) else {}


def _sees(domain: Domain) -> bool:
    caller = access.get_caller()
    return caller is None or caller.sees_domain(domain)
