"""Notes: the memories that changed, written into the git notes of their repositories."""

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
    on_failure: Callable[[Home, GitFailed], None]  # told of a repository that cannot be written
    lock: threading.Lock = field(default_factory=threading.Lock)

    def flush(self, check: Check = lambda: None) -> None:
        """Write all that waits. What cannot be written goes on waiting."""
        for home in self.queue.list_homes():
            check()
            try:
                self.flush_home(home, check)
            except GitFailed as exc:
                self.on_failure(home, exc)

    def flush_home(self, home: Home, check: Check = lambda: None) -> int:
        """Write what waits for one repository; how many changes. Raises GitFailed."""
        count = 0
        with self.lock:
            while waiting := self.queue.list_pending(home, limit=BATCH):
                check()
                found = {key: self.memories.get(key) for _, key in waiting}
                for domain, kept in _by_domain(found.values()).items():
                    self._write(self.repositories.open_notebook(home, domain), kept)
                self.queue.mark_done([ticket for ticket, _ in waiting])
                count += len(waiting)
        return count

    def write(self, home: Home, domain: Domain, memories: Sequence[Memory]) -> None:
        """Write these now, after what waits. Raises GitFailed."""
        self.flush_home(home)
        with self.lock:
            self._write(self.repositories.open_notebook(home, domain), memories)

    def _write(self, notebook: Notebook, memories: Sequence[Memory]) -> None:
        try:
            notebook.write(memories)
        except GitFailed:
            if not notebook.repair():
                raise
            notebook.write(memories)


def _by_domain(found: Iterable[Memory | None]) -> Mapping[Domain, list[Memory]]:
    domains: dict[Domain, list[Memory]] = defaultdict(list)
    for memory in found:
        if memory is not None:
            domains[memory.domain].append(memory)
    return domains
