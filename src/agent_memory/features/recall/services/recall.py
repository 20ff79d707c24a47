"""Recall: answer a query with the moments that fit best."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    NO_EMBEDDER,
    Hit,
    IndexHit,
    Query,
    RecallResult,
    SearchMode,
    SearchScope,
    TermStatistics,
)
from agent_memory.features.index.ports import Embedder, LexicalIndex, TermVectors, VectorIndex
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.ports import MemoryUses
from agent_memory.features.recall.model import intents, passages, questions, ranking
from agent_memory.features.recall.model.intents import Intent, IntentKind
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.features.recall.model.ranking import Candidate, Ranked
from agent_memory.features.recall.services.candidate_pool import CandidatePool, NearDocuments
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.overview import Overview
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.kernel import access
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import EmbedderFailed, IndexFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import time_expressions
from agent_memory.kernel.text.time_expressions import TimeWindow
from agent_memory.platform.ports import Clock

DATED_HITS = 24  # more hits of each index from a time that the question names
MOST_LISTED = 50  # memories of a kind that come before the ranked hits
EMBEDDING_SECONDS = 5.0  # how long a question waits for its vector
_WINDOWS = 4  # time expressions used per question
_NO_VECTOR = Vector(b"")  # of a question that nothing can be near to
_RANGES = 3  # ranges used per time expression, the latest


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """The vector index, the embedder and the threads of search by meaning."""

    index: VectorIndex
    embedder: Embedder
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(2, "embed-question"))


@dataclass(frozen=True, slots=True)
class Recall:
    documents: DocumentReader
    log: EventLog
    lexical: LexicalIndex
    terms: TermVectors
    unindexed: UnindexedDocuments
    vectors: VectorSearch | None
    uses: MemoryUses
    on_facts_used: Callable[[Sequence[str]], None]
    clock: Clock
    zone: tzinfo = UTC
    # Say of hits whose they are, and leave out what its owner wants to review first, and what
    # waits to be erased.
    attribute: Callable[[RecallResult], RecallResult] = lambda answer: answer

    def search(self, query: Query, *, counted: bool = True) -> RecallResult:
        """Return the hits for a query, best first. Being found counts as a use, if `counted`.

        On a team server, only what the caller sees is found.
        """
        return self.attribute(self._find(query, counted=counted))

    def _find(self, query: Query, *, counted: bool) -> RecallResult:
        limit = min(query.limit or DEFAULT_LIMIT, MAX_LIMIT)
        query = replace(query, limit=limit)
        if (caller := access.get_caller()) is not None:
            query = replace(query, scope=replace(query.scope, caller=caller))
        if query.is_listing:
            return self._list(query)
        answer = self._search(query)
        if counted:
            found = [
                self.documents.get_memory(hit.uri)
                for hit in answer.hits
                if hit.document.kind is DocumentKind.MEMORY
            ]
            self.uses.add([memory.key for memory in found if memory is not None], self.clock.now())
            self.on_facts_used(
                [
                    each.document.id
                    for each in answer.hits
                    if each.document.kind is DocumentKind.FACT
                ]
            )
        return answer

    def resolve_time(self, words: str) -> tuple[Millis, Millis]:
        """Return the first and the last moment of the time that these words mean."""
        return time_expressions.parse_moments(words, self.clock.now(), self.zone)

    def _search(self, query: Query) -> RecallResult:
        warnings: list[str] = []
        question = questions.parse_question(query.text, self.clock.now(), query.zone or self.zone)
        intent = intents.read_intent(query.text, question.windows)
        if intent is not None and (answer := self._answer_intent(intent, query)) is not None:
            return answer
        question, statistics = self._understand(question, query.scope, warnings)
        embedded = None
        if query.mode is not SearchMode.BM25:
            alone = query.mode is SearchMode.VECTOR
            embedded = self._embedding(question, warnings, alone=alone)
        pool = CandidatePool(self.log, self.documents, self.terms, self.unindexed)
        if query.mode is not SearchMode.VECTOR:  # another thread embeds the question meanwhile
            pool.add(self._by_words(question, query, warnings))
        near = self._by_meaning(question, embedded, query, warnings)
        mode = query.mode if near is not None else SearchMode.BM25
        if near is not None:
            pool.add(near.found)
        elif query.mode is SearchMode.VECTOR:
            pool.add(self._by_words(question, query, warnings))
        for scope in intents.narrow_to_kind(intent, query.scope):
            alike = replace(query, scope=scope, candidates=DATED_HITS)
            pool.add(self._by_words(question, alike, warnings=[]))
        candidates = pool.build(near)
        ranked = [
            each
            for each in ranking.rank(question, candidates, statistics, mode)
            if ranking.is_relevant(each)
        ]
        shown = list(_fold_duplicates(ranked, candidates, pool, query.scope))
        scored = ranking.calibrate([each for each, _ in shown], mode)
        found = [
            (each, grip_id)
            for each, (_, grip_id) in zip(scored, shown, strict=True)
            if each.score >= query.min_score
        ]
        end = query.offset + query.limit
        best = max((ranked.score for ranked, _ in found), default=0.0)
        if intent is None:
            hits = _read_hits(found[query.offset : end], candidates, pool)
        else:
            preferred = intents.prefer_kind(intent, _read_hits(found, candidates, pool))
            hits = preferred[query.offset : end]
        total = len(found)
        weights = questions.weigh_terms(question, statistics)
        parts = {candidate.key: candidate.part for candidate in candidates}
        return RecallResult(
            hits=tuple(self._place(hit, weights, parts.get(hit.document.key, 0)) for hit in hits),
            total=total,
            next=end if end < total else None,
            warning="; ".join(warnings) or None,
            certain=best >= ranking.CERTAIN_SCORE,
        )

    def _understand(
        self, question: ParsedQuestion, scope: SearchScope, warnings: list[str]
    ) -> tuple[ParsedQuestion, TermStatistics]:
        """Return the question with its spelling corrected and its speakers known."""
        statistics = self._statistics(question.terms, scope, warnings)
        spelled = questions.correct_spelling(
            question,
            {**statistics.frequencies, **dict.fromkeys(statistics.speakers, 1)},
            lambda terms: self._statistics(terms, scope, warnings).frequencies,
        )
        if spelled is not question:
            statistics = self._statistics(spelled.terms, scope, warnings)
        spoken = questions.resolve_speakers(spelled, statistics.speakers)
        return questions.limit_terms(spoken, statistics), statistics

    def _place(self, hit: Hit, weights: Mapping[str, float], part: int) -> Hit:
        """Return the hit with its place in the table of contents and the passage that answers."""
        hit = self.documents.locate_hit(hit)
        document = hit.document
        if document.kind is DocumentKind.MEMORY:
            return replace(hit, passage=passages.find_in_memory(document, weights))
        if document.kind is DocumentKind.SEGMENT:
            bullets = self.documents.list_bullets(document.id)
            if bullets:
                bullet, passage = passages.find_bullet(document.text, bullets, weights)
                return replace(hit, passage=passage, grip_id=next(iter(bullet.grip_ids), ""))
        focus = embeddings.locate_part(document, part)
        return replace(hit, passage=passages.find_passage(document.text, weights, focus=focus))

    def _answer_intent(self, intent: Intent, query: Query) -> RecallResult | None:
        """Answer a question about a time or a kind that has no words to rank by. Return None if
        ranking must answer it."""
        if intent.topic:
            return None
        if intent.kind in (IntentKind.OVERVIEW, IntentKind.LAST):
            overview = Overview(self.log, self.documents.toc)
            documents = overview.find(intent, query.scope, self.clock.now())
        else:
            documents = []
        if not documents:
            documents = self._list_documents(intent, query)
        if not documents and intent.kind is not IntentKind.OVERVIEW:
            return None
        hits = [hit for hit in intents.score_answers(documents) if hit.score >= query.min_score]
        end = query.offset + query.limit
        return RecallResult(
            hits=tuple(self._place(hit, {}, 0) for hit in hits[query.offset : end]),
            total=len(hits),
            next=end if end < len(hits) else None,
            warning=None if documents else f"nothing was recorded {intent.windows[0].words}",
        )

    def _list_documents(self, intent: Intent, query: Query) -> list[Document]:
        """Return the newest documents of the kind or the time that the question names."""
        scopes = [
            *intents.narrow_to_kind(intent, query.scope),
            *(_narrow_to_times(intent.windows, query.scope) if not intent.namespace else ()),
        ]
        found = (
            self._list(replace(query, text="", scope=scope, offset=0, limit=MOST_LISTED)).hits
            for scope in scopes
        )
        return [hit.document for hits in found for hit in hits]

    def _list(self, query: Query) -> RecallResult:
        warnings: list[str] = []
        end = query.offset + query.limit
        fresh, missing = self.unindexed.all(query.scope)
        _note_missing(missing, query.scope, warnings)
        found = {each.key: each for each in fresh}
        total = len(found)
        try:
            stored, count = self.lexical.find_newest(query.scope, limit=end + len(found))
            total += count - sum(each.key in found for each in stored)
            found = {each.key: each for each in stored} | found
        except IndexFailed:
            _note_failed(warnings)
        newest = sorted(found.values(), key=_newest_first)
        wanted = newest[query.offset : end]
        read = self.documents.read(wanted)
        placed = (
            self._place(Hit(document=read[each.key], score=0.0, parts={}), {}, 0)
            for each in wanted
            if each.key in read
        )
        # It may have changed since it was indexed, and its place is known only once it is read.
        hits = tuple(hit for hit in placed if query.scope.admits(hit.document))
        return RecallResult(
            hits=hits,
            total=total - (len(wanted) - len(hits)),
            next=end if end < total else None,
            warning="; ".join(warnings) or None,
        )

    def _statistics(
        self, terms: Sequence[str], scope: SearchScope, warnings: list[str]
    ) -> TermStatistics:
        fresh = self.unindexed.statistics(terms, scope)
        try:
            return self.lexical.get_statistics(terms, scope.caller).plus(fresh)
        except IndexFailed:
            _note_failed(warnings)
            return fresh

    def _embedding(
        self, question: ParsedQuestion, warnings: list[str], *, alone: bool
    ) -> "Future[Vector] | None":
        if self.vectors is None:
            warnings.append(("no search by meaning; " if alone else "") + NO_EMBEDDER)
            return None
        if self.vectors.index.is_empty:  # do not wait until the model is loaded
            nothing: Future[Vector] = Future()
            nothing.set_result(_NO_VECTOR)
            return nothing
        return self.vectors.threads.submit(self.vectors.embedder.embed_question, question.meaning)

    def _by_words(
        self, question: ParsedQuestion, query: Query, warnings: list[str]
    ) -> list[Sequence[IndexHit]]:
        scope, most = query.scope, query.candidates
        fresh, missing = self.unindexed.find(question.needles, scope, limit=most)
        _note_missing(missing, scope, warnings)
        found: list[Sequence[IndexHit]] = [fresh]
        try:
            found.append(self.lexical.find(question.terms, scope, limit=most))
            for then in _narrow_to_times(question.windows, scope):
                found.append(sorted(self.unindexed.all(then)[0], key=_newest_first)[:DATED_HITS])
                found.append(self.lexical.find(question.terms, then, limit=DATED_HITS))
                found.append(self.lexical.find_newest(then, limit=DATED_HITS)[0])
        except IndexFailed:
            _note_failed(warnings)
        return found

    def _by_meaning(
        self,
        question: ParsedQuestion,
        embedded: "Future[Vector] | None",
        query: Query,
        warnings: list[str],
    ) -> NearDocuments | None:
        if self.vectors is None or embedded is None:
            return None
        try:
            vector = embedded.result(EMBEDDING_SECONDS)
            index = self.vectors.index
            found: list[Sequence[IndexHit]] = []
            if vector != _NO_VECTOR:
                found.append(index.find_nearest(vector, query.scope, limit=query.candidates))
                found += [
                    index.find_nearest(vector, then, limit=DATED_HITS)
                    for then in _narrow_to_times(question.windows, query.scope)
                ]
        except TimeoutError:
            embedded.cancel()  # the next question would wait for it
            warnings.append("searched by words alone: the embedder takes too long")
            return None
        except (EmbedderFailed, IndexFailed) as exc:
            warnings.append(f"searched by words alone: {exc}")
            return None
        unrelated = self.vectors.embedder.unrelated
        return NearDocuments(vector=vector, index=index, unrelated=unrelated, found=found)


def _narrow_to_times(windows: Sequence[TimeWindow], scope: SearchScope) -> Iterator[SearchScope]:
    """Yield the scope narrowed to each time that the question names, latest first."""
    ranges = dict.fromkeys(
        span for window in windows[:_WINDOWS] for span in window.ranges[: -_RANGES - 1 : -1]
    )
    for start, end in ranges:
        since, until = max(start, scope.since), min(end, scope.until)
        if since <= until:
            yield replace(scope, since=since, until=until)


def _read_hits(
    found: Sequence[tuple[Ranked, str]], candidates: Sequence[Candidate], pool: CandidatePool
) -> list[Hit]:
    hits = [candidates[ranked.place].hit for ranked, _ in found]
    documents = pool.read(hits)
    return [
        Hit(document=documents[hit.key], score=ranked.score, parts=ranked.parts, grip_id=grip_id)
        for hit, (ranked, grip_id) in zip(hits, found, strict=True)
        if hit.key in documents
    ]


def _fold_duplicates(
    ranked: Sequence[Ranked],
    candidates: Sequence[Candidate],
    pool: CandidatePool,
    scope: SearchScope,
) -> Iterator[tuple[Ranked, str]]:
    """Yield hits in scope, each once: leave out a hit that says the same as a better one, and
    the lesser of an event and a grip in it. Each comes with the id of a grip in it, if there is
    one."""
    together = _pair_events_with_grips(candidates, pool)
    admitted = _admit(candidates, pool, scope)
    said: set[int] = set()
    covered: set[DocumentKey] = set()
    for each in ranked:
        candidate = candidates[each.place]
        key = candidate.key
        if key not in admitted:
            continue
        if candidate.hit.kind is DocumentKind.MEMORY:
            yield each, ""  # two memories with the same content are two memories
            continue
        if candidate.vector.digest in said or key in covered:
            continue
        grip_id = ""
        for other in together.get(key, ()):
            covered.add(other.key)
            grip_id = grip_id or (other.id if other.kind is DocumentKind.GRIP else "")
        if candidate.vector.digest:
            said.add(candidate.vector.digest)
        yield each, grip_id


def _admit(
    candidates: Sequence[Candidate], pool: CandidatePool, scope: SearchScope
) -> frozenset[DocumentKey]:
    """Return what is in scope. A neighboring turn may not be, nor a memory that has changed since
    it was indexed."""
    doubtful = {
        candidate.key: candidate.hit
        for candidate in candidates
        if candidate.hit.kind is DocumentKind.MEMORY or not pool.is_found(candidate.key)
    }
    out: set[DocumentKey] = set()
    if not scope.filters_turns:  # all that a neighboring turn can fail is known without its text
        turns = {k: hit for k, hit in doubtful.items() if hit.kind is DocumentKind.EVENT}
        out = {key for key, hit in turns.items() if not scope.admits_turn(hit)}
        doubtful = {key: hit for key, hit in doubtful.items() if key not in turns}
    read = pool.read(doubtful.values())
    out |= {key for key in doubtful if key not in read or not scope.admits(read[key])}
    return frozenset(candidate.key for candidate in candidates) - out


def _pair_events_with_grips(
    candidates: Sequence[Candidate], pool: CandidatePool
) -> dict[DocumentKey, list[IndexHit]]:
    """Map events to the grips in them, and grips to their events."""
    hits = [candidate.hit for candidate in candidates]
    grips = [hit for hit in hits if hit.kind is DocumentKind.GRIP]
    if not grips:
        return {}
    moments = {(grip.session, grip.at_ms) for grip in grips}
    events: dict[tuple[str, Millis], list[IndexHit]] = defaultdict(list)
    for hit in hits:
        if hit.kind is DocumentKind.EVENT and (hit.session, hit.at_ms) in moments:
            events[hit.session, hit.at_ms].append(hit)
    read = pool.read([*grips, *(hit for held in events.values() for hit in held)])
    together: dict[DocumentKey, list[IndexHit]] = defaultdict(list)
    for grip in grips:
        if grip.key not in read:  # it is gone, or not for this caller
            continue
        for event in events[grip.session, grip.at_ms]:
            if event.key in read and read[grip.key].text in read[event.key].text:
                together[grip.key].append(event)
                together[event.key].append(grip)
    return together


def _note_missing(count: int, scope: SearchScope, warnings: list[str]) -> None:
    if not count:
        return
    if scope.caller not in (None, access.OWNER):  # others' changes are among them
        warnings.append("what was recorded of late is not in the index yet")
        return
    verb = "is" if count == 1 else "are"
    warnings.append(f"{format_count(count, 'change')} {verb} not in the index yet")


def _note_failed(warnings: list[str]) -> None:
    note = "the index of words cannot be read and will be rebuilt"
    if note not in warnings:
        warnings.append(note)


def _newest_first(found: IndexHit) -> tuple[int, str]:
    return -found.at_ms, found.key
