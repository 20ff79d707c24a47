"""Build the context for a project, a branch, a prompt or a file, within a budget."""

from collections.abc import Iterator
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
from agent_memory.features.recall.model import contexts, ranking
from agent_memory.features.recall.model.contexts import Context, ContextRequest
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.ids import USER

BLOCKERS = 5
DECISIONS = 5
MEMORIES = 10
RELATED = 10
FACTS = 3
RECENT = 5


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    recall: Recall

    def build(
        self, wanted: ContextRequest, mode: SearchMode = SearchMode.HYBRID, *, counted: bool = True
    ) -> Context:
        """Build the context: blockers first, then recent decisions, hits for the prompt and the
        file, other memories, and the latest work."""
        found: dict[DocumentKey, Hit] = {}
        for hit in self._find_hits(wanted, mode, counted):
            if wanted.session and hit.document.session == wanted.session:
                continue
            if hit.document.text != hit.document.title or hit.document.kind is DocumentKind.MEMORY:
                # without the question, only its time is known
                known = found.setdefault(hit.document.key, hit)
                if contexts.RECENCY in known.parts and contexts.RECENCY not in hit.parts:
                    # keeps its place, with the score of the better answer
                    found[hit.document.key] = hit
        return contexts.build(wanted, found.values())

    def _list_newest(self, query: Query) -> Iterator[Hit]:
        """List the newest hits: with no question, recency is why they are shown."""
        now = self.recall.clock.now()
        for hit in self.recall.search(query).hits:
            recent = ranking.score_recency(hit.document.at_ms, now)
            yield replace(hit, score=recent, parts={contexts.RECENCY: recent})

    def _find_hits(self, wanted: ContextRequest, mode: SearchMode, counted: bool) -> Iterator[Hit]:
        domains = frozenset({f"project:{wanted.project}"} if wanted.project else ())
        active = frozenset({"active"})
        for namespace, limit in (("blockers", BLOCKERS), ("decisions", DECISIONS)):
            scope = SearchScope(
                kinds=frozenset({DocumentKind.MEMORY}),
                namespace=namespace,
                domains=domains,
                statuses=active,
            )
            yield from self._list_newest(Query(text="", scope=scope, limit=limit))
        about = _words(wanted)
        if about:
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
        scope = SearchScope(
            kinds=frozenset({DocumentKind.MEMORY}),
            domains=domains | {USER} if domains else domains,
            statuses=active,
        )
        yield from self._list_newest(Query(text="", scope=scope, limit=MEMORIES))
        scope = SearchScope(kinds=frozenset({DocumentKind.SEGMENT}), project=wanted.project)
        yield from self._list_newest(Query(text="", scope=scope, limit=RECENT))


def _words(wanted: ContextRequest) -> str:
    """Build the text to search for: the words in the names of a branch and a path."""
    file = PurePath(wanted.file)
    branch = wanted.branch if wanted.branch not in {"main", "master", "trunk", "develop"} else ""
    parts = (wanted.prompt, branch.replace("/", " "), " ".join((*file.parts[-2:], file.stem)))
    words = " ".join(filter(None, (part.strip() for part in parts)))[:MAX_QUERY_CHARS]
    return "" if Query(text=words).is_listing else words
