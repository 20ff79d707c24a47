"""Write changed memories to the git notes of their repositories."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_memory.features.memories.model.memories import Home, Memory
from agent_memory.features.memories.ports import Memories, Notebook, NoteQueue, Repositories
from agent_memory.kernel.errors import GitFailed
from agent_memory.kernel.ids import Domain

BATCH = 500

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class NoteWriter:
    memories: Memories
    queue: NoteQueue
    repositories: Repositories
    on_failure: Callable[[Home, GitFailed], None]  # called if a repository cannot be written
    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: dict[Home, str] = field(default_factory=dict)  # of the last write of each

    def flush(self, check: Check = lambda: None) -> None:
        """Write all pending changes. Those that fail stay pending."""
        for home in self.queue.list_homes():
            check()
            try:
                self.flush_home(home, check)
            except GitFailed as exc:
                self.on_failure(home, exc)

    def flush_home(self, home: Home, check: Check = lambda: None) -> int:
        """Write the pending changes of one repository and return their number. Raises GitFailed."""
        try:
            count = self._flush_home(home, check)
        except GitFailed as exc:
            self.failures[home] = str(exc)
            raise
        self.failures.pop(home, None)
        return count

    def warnings(self) -> list[str]:
        """List the repositories that exist and take no notes."""
        return [
            f"memories wait for their notes: {reason}"
            for home, reason in sorted(self.failures.items())
            if self.repositories.exists(home)
        ]

    def _flush_home(self, home: Home, check: Check) -> int:
        count = 0
        with self.lock:
            while pending := self.queue.list_pending(home, limit=BATCH):
                check()
                changed = {key: self.memories.get(key) for _, key in pending}
                for domain, memories in _group_by_domain(changed.values()).items():
                    self._write(self.repositories.open_notebook(home, domain), memories)
                self.queue.mark_done([ticket for ticket, _ in pending])
                count += len(pending)
        return count

    def write(self, home: Home, domain: Domain, memories: Sequence[Memory]) -> None:
        """Write these now, after all pending changes. Raises GitFailed."""
        self.flush_home(home)
        with self.lock:
            self._write(self.repositories.open_notebook(home, domain), memories)

    def _write(self, notebook: Notebook, memories: Sequence[Memory]) -> None:
        shared = [memory for memory in memories if not memory.is_pending]
        if not shared:
            return
        try:
            notebook.write(shared)
        except GitFailed:
            if not notebook.repair():
                raise
            notebook.write(shared)


def _group_by_domain(memories: Iterable[Memory | None]) -> Mapping[Domain, list[Memory]]:
    domains: dict[Domain, list[Memory]] = defaultdict(list)
    for memory in memories:
        if memory is not None:
            domains[memory.domain].append(memory)
    return domains
