"""Count memories by kind and verify that each can be found and is in its notes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import MAX_LIMIT, Query, SearchScope
from agent_memory.features.memories.model import memories, tiers
from agent_memory.features.memories.model.memories import MemoryOutline, MemoryStatus
from agent_memory.features.memories.model.projects import NOWHERE
from agent_memory.features.memories.model.tiers import MemoryUse
from agent_memory.features.memories.ports import Notebook, Projects
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import AgentMemoryError, GitFailed
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.kernel.status import ContentsStatus, IndexesStatus

Name = TypeVar("Name", bound=str)

_SHOWN = 20  # problems listed per kind


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCounts:
    """The number of memories by kind. `features` is what recall can do: core, enhanced or llm."""

    total: int
    by_domain: Mapping[Domain, int]
    by_namespace: Mapping[str, int]
    by_tier: Mapping[str, int]
    by_status: Mapping[str, int]
    indexes: IndexesStatus
    last_sync_ms: Millis | None
    waiting: int  # changes not yet written to notes
    to_review: int  # memories that await the user's review
    features: str
    contents: ContentsStatus | None  # None: no rebuild of the table of contents is due

    @property
    def index_bytes(self) -> int:
        vectors = self.indexes.vectors
        return self.indexes.words.size_bytes + (0 if vectors is None else vectors.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCheck:
    """What was checked, and what is wrong."""

    memories: int
    notes: int
    unindexed: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    editor: MemoryEditor
    notes: NoteWriter
    projects: Projects
    resolver: ProjectResolver
    recall: Recall
    indexes: Indexes
    rebuild: BackgroundRebuild
    llm: bool

    def count(self, domains: Sequence[Domain] | None) -> MemoryCounts:
        """Count the memories of these domains, or of all."""
        groups = {
            group: count
            for group, count in self.editor.outlines.count_groups().items()
            if group.status is not MemoryStatus.TOMBSTONE
            and (domains is None or group.key.domain in domains)
        }
        now = self.recall.clock.now()
        chosen = self.editor.memories.list_domains() if domains is None else domains
        homes = [home for domain in chosen for home in self.resolver.list_homes(domain)]
        syncs = [self.projects.get_sync_state(home).at_ms for home in homes]
        status = self.indexes.status()
        return MemoryCounts(
            total=sum(groups.values()),
            by_domain=_count(groups, lambda group: group.key.domain),
            by_namespace=_count(groups, lambda group: group.namespace),
            by_tier=_count(
                groups,
                lambda group: tiers.assign_tier(group, MemoryUse(count=group.uses), now).value,
            ),
            by_status=_count(groups, lambda group: group.status.value),
            indexes=status,
            last_sync_ms=max(syncs, default=Millis(0)) or None,
            waiting=sum(len(self.notes.queue.list_pending(home, limit=1_000)) for home in homes),
            to_review=sum(
                count for group, count in groups.items() if group.status is MemoryStatus.PENDING
            ),
            features="llm" if self.llm else "core" if status.vectors is None else "enhanced",
            contents=self.rebuild.status(),
        )

    def verify(
        self, domains: Sequence[Domain] | None, on_progress: Callable[[int], None]
    ) -> MemoryCheck:
        """Verify that every memory can be read, is found by its words and is in its notes, and
        that every note can be read."""
        self.notes.flush()
        kept = {memory.key: memory for memory in self.editor.list_all(domains)}
        chosen = self.editor.memories.list_domains() if domains is None else domains
        indexed = {urn for domain in chosen for urn in self._list_indexed(domain, on_progress)}
        lost = [memory for memory in kept.values() if memory.urn not in indexed]
        problems = [
            f"{each.id} is not in the index: memory-daemon admin rebuild-index"
            for each in lost[:_SHOWN]
        ]
        if len(lost) > _SHOWN:
            problems.append(f"so are {len(lost) - _SHOWN} more")
        noted: set[MemoryKey] = set()
        with_notes: set[Domain] = set()  # others have no repository on this machine
        for domain in chosen:
            for home in self.resolver.list_homes(domain):
                if home != NOWHERE:
                    with_notes.add(domain)
                    noted |= self._list_noted(domain, home, problems)
        missing = [
            memory
            for key, memory in kept.items()
            if key not in noted
            and memory.domain in with_notes
            and not memory.is_pending  # a review comes before the notes
        ]
        problems += [f"{each.id} is in no note yet: memory sync" for each in missing[:_SHOWN]]
        if len(missing) > _SHOWN:
            problems.append(f"so are {len(missing) - _SHOWN} more")
        return MemoryCheck(
            memories=len(kept), notes=len(noted), unindexed=len(lost), problems=tuple(problems)
        )

    def restore_notes(self) -> int:
        """Write memories into notes that lack them, and return how many. Unreadable notes are
        left alone."""
        self.notes.flush()
        count = 0
        for domain in self.editor.memories.list_domains():
            for home in self.resolver.list_homes(domain):
                try:
                    notebook = self._notebook(home, domain)
                    notebook.repair()
                    noted = {each.key for each in notebook.read().memories}
                    missing = [
                        each
                        for each in self.editor.list_all([domain])
                        if each.key not in noted and not each.is_pending
                    ]
                    self.notes.write(home, domain, missing)
                except GitFailed:
                    continue
                count += len(missing)
        return count

    def _notebook(self, home: memories.Home, domain: Domain) -> Notebook:
        return self.notes.repositories.open_notebook(home, domain)

    def _list_indexed(self, domain: Domain, on_progress: Callable[[int], None]) -> set[str]:
        """List what recall can list. A page starts at the time of the last hit, so that no page
        counts all before it."""
        scope = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            domains=frozenset({domain}),
            statuses=frozenset(MemoryStatus) - {MemoryStatus.TOMBSTONE},
        )
        found: dict[str, Millis] = {}
        offset = 0
        while True:
            page = self.recall.search(Query(text="", scope=scope, limit=MAX_LIMIT, offset=offset))
            found |= {hit.uri: hit.document.at_ms for hit in page.hits}
            on_progress(len(found))
            if page.next is None or not page.hits:
                return set(found)
            last = page.hits[-1].document.at_ms
            offset = sum(at == last for at in found.values())
            scope = replace(scope, until=last)

    def _list_noted(
        self, domain: Domain, home: memories.Home, problems: list[str]
    ) -> set[MemoryKey]:
        try:
            notebook = self._notebook(home, domain)
            if torn := notebook.find_torn():
                objects = format_count(len(torn), "object")
                problems.append(f"{home} has {objects} that a crash tore: memory sync --force")
            reading = notebook.read()
        except AgentMemoryError as exc:
            problems.append(str(exc))
            return set()
        problems += [
            f"{each.ref} on {each.target[:12]}: {each.reason}" for each in reading.problems
        ]
        return {memory.key for memory in reading.memories}


def _count(
    groups: Mapping[MemoryOutline, int], name: Callable[[MemoryOutline], Name]
) -> Counter[Name]:
    """Add up the groups of the same name."""
    counts: Counter[Name] = Counter()
    for group, count in groups.items():
        counts[name(group)] += count
    return counts
