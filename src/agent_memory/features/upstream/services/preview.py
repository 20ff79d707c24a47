"""Show what of a repository would leave, before it does."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services import paging
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import Memories
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.services.shared_projects import SharedProjects
from agent_memory.kernel.ids import USER, Millis
from agent_memory.kernel.progress import OnCount

SAMPLES = 3
SAMPLE_CHARS = 100
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePreview:
    """What a repository has here. `name` is its project; it is empty if this machine does not know
    the repository. Memories that await review are not among `memories`."""

    repository: str
    name: str = ""
    memories: int = 0
    to_review: int = 0
    facts: int = 0
    since_ms: Millis | None = None  # of memories and facts
    events: int = 0
    sessions: int = 0
    said_since_ms: Millis | None = None  # of events
    samples: tuple[str, ...] = ()  # the newest of what would leave


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPreview:
    shared: SharedProjects
    log: EventLog
    memories: Memories
    knowledge: KnowledgeStore

    def build(self, repository: str, *, conversations: bool, on_progress: OnCount) -> SharePreview:
        """Count what a repository has, or the user's own memories, with samples of what leaves."""
        project = None if repository == USER else self.shared.find(repository)
        if project is None and repository != USER:
            return SharePreview(repository=repository)
        name = USER if project is None else project.id
        scope = SharedScope(frozenset({name}), frozenset({repository} - {USER}))
        found = list(self._iter_memories(name))
        memories = [memory for memory in found if not memory.is_pending]
        facts = [] if project is None else list(self._iter_facts(scope))
        count, sessions, first = 0, set(), None
        said: deque[tuple[Millis, str]] = deque(maxlen=SAMPLES)
        for event in () if project is None else self._iter_events(scope, on_progress):
            count, first = count + 1, first or event.at_ms
            sessions.add(event.session_id)
            if event.text and conversations:
                said.append((event.at_ms, event.text[: 2 * SAMPLE_CHARS]))
        texts = [(memory.created_ms, memory.summary) for memory in memories]
        texts += [(fact.valued_ms, f"{fact.key}: {fact.value}") for fact in facts]
        newest = sorted([*texts, *said], reverse=True)[:SAMPLES]
        return SharePreview(
            repository=repository,
            name=name,
            memories=len(memories),
            to_review=len(found) - len(memories),
            facts=len(facts),
            since_ms=min((at_ms for at_ms, _ in texts), default=None),
            events=count,
            sessions=len(sessions),
            said_since_ms=first,
            samples=tuple(" ".join(text.split())[:SAMPLE_CHARS] for _, text in newest),
        )

    def _iter_memories(self, name: str) -> Iterator[Memory]:
        domain, after = scopes.build_domain(name), None
        while found := self.memories.list_domain(domain, after=after, limit=_PAGE):
            after = found[-1].key
            yield from (each for each in found if each.status is not MemoryStatus.TOMBSTONE)

    def _iter_facts(self, scope: SharedScope) -> Iterator[Fact]:
        after = ""
        while found := self.knowledge.list_after(Fact, after, limit=_PAGE):
            after = found[-1].id
            yield from filter(scope.admits_fact, found)

    def _iter_events(self, scope: SharedScope, on_progress: OnCount) -> Iterator[Event]:
        read = 0
        for page in paging.iter_between(self.log):
            read += len(page.events)
            on_progress(read)
            yield from filter(scope.sends_event, page.events)
