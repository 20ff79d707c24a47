"""Build the context for a project, a branch, a prompt or a file, within a budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from agent_memory.features.index.model.documents import DocumentKey, DocumentKind
from agent_memory.features.index.model.queries import (
    MAX_QUERY_CHARS,
    Hit,
    Query,
    SearchMode,
    SearchScope,
)
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.recall.model import contexts, ranking
from agent_memory.features.recall.model.contexts import Context, ContextItem, ContextRequest
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.recall.services.recent_work import RecentWork
from agent_memory.kernel.ids import USER

BLOCKERS = 5
DECISIONS = 5
MEMORIES = 10
RELATED = 10
FACTS = 3
TO_REVIEW = 5
_ACTIVE = frozenset({MemoryStatus.ACTIVE})
_PENDING = frozenset({MemoryStatus.PENDING})


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    recall: Recall
    work: RecentWork

    def build(
        self, wanted: ContextRequest, mode: SearchMode = SearchMode.HYBRID, *, counted: bool = True
    ) -> Context:
        """Build the context: where the last session left off, then what blocks and is open, what
        was decided, what awaits review, hits for the prompt and the file, other memories, and
        earlier sessions."""
        found: dict[DocumentKey, ContextItem] = {}
        pending = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            domains=_list_domains(wanted),
            statuses=_PENDING,
        )
        inbox = self.recall.search(Query(text="", scope=pending, limit=TO_REVIEW))
        for item in self._find_items(wanted, mode, counted, inbox.hits):
            hit = item.hit
            if wanted.session and hit.document.session == wanted.session:
                continue
            if hit.document.text != hit.document.title or hit.document.kind is DocumentKind.MEMORY:
                # without the question, only its time is known
                known = found.setdefault(hit.document.key, item)
                if contexts.RECENCY in known.hit.parts and contexts.RECENCY not in hit.parts:
                    # keeps its place, with the score of the better answer
                    found[hit.document.key] = replace(known, hit=hit)
        return contexts.build(wanted, found.values(), to_review=inbox.total)

    def _list_newest(self, query: Query) -> Iterator[ContextItem]:
        return self._rate_newest(self.recall.search(query).hits)

    def _rate_newest(self, hits: Sequence[Hit]) -> Iterator[ContextItem]:
        """Score listed hits: with no question, recency is why they are shown."""
        now = self.recall.clock.now()
        for hit in hits:
            recent = ranking.score_recency(hit.document.at_ms, now)
            yield ContextItem(hit=replace(hit, score=recent, parts={contexts.RECENCY: recent}))

    def _find_items(
        self, wanted: ContextRequest, mode: SearchMode, counted: bool, pending: Sequence[Hit]
    ) -> Iterator[ContextItem]:
        work = self.work.read(wanted.project, wanted.session)
        if wanted.plain:
            work = work.shorten()
        domains = _list_domains(wanted)
        yield from work.left_off
        for namespace, limit, more in (
            ("blockers", BLOCKERS, work.unsolved),
            ("decisions", DECISIONS, work.decided),
        ):
            scope = SearchScope(
                kinds=frozenset({DocumentKind.MEMORY}),
                namespace=namespace,
                domains=domains,
                statuses=_ACTIVE,
            )
            yield from self._list_newest(Query(text="", scope=scope, limit=limit))
            yield from more
        yield from self._rate_newest(pending)
        for hit in self._find_hits(wanted, mode, counted):
            yield ContextItem(hit=hit)
        scope = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            domains=domains | {USER} if domains else domains,
            statuses=_ACTIVE,
        )
        yield from self._list_newest(Query(text="", scope=scope, limit=MEMORIES))
        yield from work.earlier

    def _find_hits(self, wanted: ContextRequest, mode: SearchMode, counted: bool) -> Iterator[Hit]:
        """Find what answers the prompt, the branch and the file."""
        about = _words(wanted)
        if not about:
            return
        # The names of a branch or a file have words that no memory has.
        least = ranking.INJECTED_SCORE if wanted.prompt else 0.0
        kinds = frozenset({DocumentKind.MEMORY, DocumentKind.SEGMENT, DocumentKind.GRIP})
        if wanted.words:
            kinds |= {DocumentKind.EVENT}
            # facts belong to no project
            facts = SearchScope(kinds=frozenset({DocumentKind.FACT}))
            query = Query(text=about, scope=facts, limit=FACTS, mode=mode, min_score=least)
            yield from self.recall.search(query, counted=counted).hits
        scope = SearchScope(kinds=kinds, project=wanted.project)
        query = Query(text=about, scope=scope, limit=RELATED, mode=mode, min_score=least)
        yield from self.recall.search(query, counted=counted).hits


def _list_domains(wanted: ContextRequest) -> frozenset[str]:
    """Return the domain of the project; none, for all domains, without a project."""
    return frozenset({f"project:{wanted.project}"} if wanted.project else ())


def _words(wanted: ContextRequest) -> str:
    """Build the text to search for: the words in the names of a branch and a path."""
    file = PurePath(wanted.file)
    branch = wanted.branch if wanted.branch not in {"main", "master", "trunk", "develop"} else ""
    parts = (wanted.prompt, branch.replace("/", " "), " ".join((*file.parts[-2:], file.stem)))
    words = " ".join(filter(None, (part.strip() for part in parts)))[:MAX_QUERY_CHARS]
    return "" if Query(text=words).is_listing else words
