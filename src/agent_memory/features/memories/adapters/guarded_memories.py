"""The memories of a team server: each caller sees and writes those of their projects and their
own."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from agent_memory.features.memories.model.memories import Memory, MemoryOutline
from agent_memory.features.memories.ports import Memories, MemoryChange, Outlines
from agent_memory.kernel import access
from agent_memory.kernel.ids import Domain, MemoryKey


class GuardedMemories:
    """A Memories."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    def get(self, key: MemoryKey, /) -> Memory | None:
        return self._memories.get(key) if _sees(key.domain) else None

    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        return self._memories.find_by_digest(domain, namespace, start) if _sees(domain) else []

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        return self._memories.list_domain(domain, after=after, limit=limit) if _sees(domain) else []

    def list_domains(self) -> list[Domain]:
        return [domain for domain in self._memories.list_domains() if _sees(domain)]

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        """Write durably. Raises Forbidden."""
        for change in changes:
            access.check_may_write("memories", change.after.domain)
        return self._memories.write(changes)


class GuardedOutlines:
    """An Outlines."""

    def __init__(self, outlines: Outlines) -> None:
        self._outlines = outlines

    def count_groups(self) -> Mapping[MemoryOutline, int]:
        groups = self._outlines.count_groups()
        return Counter({group: n for group, n in groups.items() if _sees(group.key.domain)})

    def find_newest(
        self, admits: Callable[[MemoryOutline], bool], /, *, limit: int
    ) -> list[MemoryKey]:
        return self._outlines.find_newest(
            lambda outline: _sees(outline.key.domain) and admits(outline), limit=limit
        )

    def find_superseded(self, domain: Domain, /) -> dict[str, list[MemoryKey]]:
        return self._outlines.find_superseded(domain) if _sees(domain) else {}


def _sees(domain: Domain) -> bool:
    caller = access.get_caller()
    return caller is None or caller.sees_domain(domain)
