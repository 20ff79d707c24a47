"""Recall: answer a query with the moments that fit best."""

import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Hit,
    IndexHit,
    Query,
    RecallResult,
    SearchMode,
    SearchScope,
    TermStatistics,
)
from agent_memory.features.index.ports import Embedder, LexicalIndex, VectorIndex
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.ports import MemoryUses
from agent_memory.features.recall.model import ranking
from agent_memory.features.recall.model.ranking import Candidate, ParsedQuestion, Ranked
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.kernel.errors import EmbedderFailed, IndexFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.text import time_expressions
from agent_memory.platform.ports import Clock

TOP_HITS = 20  # top hits of each index whose neighboring turns are read
DATED_HITS = 24  # more hits of each index from a time that the question names
BACKLOG = 200  # changes waiting to be embedded that count as a backlog
EMBEDDING_SECONDS = 5.0  # how long a question waits for its vector
_WINDOWS = 4  # time expressions used per question
_RANGES = 3  # ranges used per time expression, the latest
_COMPARED = 2_000  # characters compared
_MARKS = (string.punctuation + string.whitespace).encode()
_DISTINCT = 30  # letters a text needs to count as a duplicate of another


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """What search by meaning needs."""

    index: VectorIndex
    embedder: Embedder
    count_pending: Callable[[], int]  # changes not embedded yet
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(2, "embed-question"))


@dataclass(frozen=True, slots=True)
class Recall:
    documents: DocumentReader
    log: EventLog
    lexical: LexicalIndex
    unindexed: UnindexedDocuments
    vectors: VectorSearch | None
    uses: MemoryUses
    on_facts_used: Callable[[Sequence[str]], None]
    clock: Clock

    def search(self, query: Query, *, counted: bool = True) -> RecallResult:
        """Return the hits for a query, best first. Being found counts as a use, if `counted`."""
        limit = min(query.limit or DEFAULT_LIMIT, MAX_LIMIT)
        query = replace(query, limit=limit)
        if query.is_listing:
            return self._list(query)
        answer = self._search(query)
        if counted:
            found = [self.documents.get_memory(hit.uri) for hit in answer.hits if hit.uri]
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
        return time_expressions.parse_moments(words, self.clock.now())

    def _search(self, query: Query) -> RecallResult:
        warnings: list[str] = []
        question = ranking.parse_question(query.text, self.clock.now())
        statistics = self._statistics(question, query.scope, warnings)
        question = ranking.limit_terms(
            ranking.resolve_speakers(question, statistics.speakers), statistics
        )
        embedded = None if query.mode is SearchMode.BM25 else self._embedding(question, warnings)
        pool = _Pool(self.log, self.documents)
        if query.mode is not SearchMode.VECTOR:  # another thread embeds the question meanwhile
            pool.add(self._by_words(question, query, warnings))
        near = self._by_meaning(question, embedded, query, warnings)
        mode = query.mode if near is not None else SearchMode.BM25
        if near is not None:
            pool.add(near.found)
        elif query.mode is SearchMode.VECTOR:
            pool.add(self._by_words(question, query, warnings))
        candidates = pool.candidates(near)
        ranked = ranking.rank(question, candidates, statistics, mode)
        telling = [e for e in ranked if e.score >= query.min_score and ranking.is_relevant(e)]
        once = list(_fold_duplicates(telling, candidates, query.scope))
        end = query.offset + query.limit
        hits = (
            Hit(
                document=candidates[each.place].document,
                score=each.score,
                parts=each.parts,
                grip_id=grip_id,
            )
            for each, grip_id in once[query.offset : end]
        )
        return RecallResult(
            hits=tuple(self.documents.locate_hit(hit) for hit in hits),
            total=len(once),
            next=end if end < len(once) else None,
            warning="; ".join(warnings) or None,
        )

    def _list(self, query: Query) -> RecallResult:
        warnings: list[str] = []
        end = query.offset + query.limit
        fresh, missing = self.unindexed.all(query.scope)
        _note_missing(missing, warnings)
        found = {each.key: each for each in fresh}
        total = len(found)
        try:
            stored, count = self._newest(query.scope, end + len(found))
            total += count - sum(each.key in found for each in stored)
            found = {each.key: each for each in stored} | found
        except IndexFailed:
            _note_failed(warnings)
        newest = sorted(found.values(), key=_newest_first)
        wanted = newest[query.offset : end]
        read = self.documents.read(wanted)
        placed = (
            self.documents.locate_hit(Hit(document=read[each.key], score=0.0, parts={}))
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

    def _newest(self, scope: SearchScope, limit: int) -> tuple[list[IndexHit], int]:
        """Keep all hits of one moment or none, so that their order does not depend on where a
        page ends."""
        wanted = limit + 1
        while True:
            stored, count = self.lexical.find_newest(scope, limit=wanted)
            if len(stored) < wanted or stored[-1].at_ms < stored[limit - 1].at_ms:
                return stored, count
            wanted *= 2

    def _statistics(
        self, question: ParsedQuestion, scope: SearchScope, warnings: list[str]
    ) -> TermStatistics:
        fresh = self.unindexed.statistics(question.terms, scope)
        try:
            return self.lexical.get_statistics(question.terms).plus(fresh)
        except IndexFailed:
            _note_failed(warnings)
            return fresh

    def _embedding(self, question: ParsedQuestion, warnings: list[str]) -> "Future[Vector] | None":
        if self.vectors is None:
            warnings.append("searched by words alone: embedder.provider is none")
            return None
        return self.vectors.threads.submit(self.vectors.embedder.embed_question, question.meaning)

    def _by_words(
        self, question: ParsedQuestion, query: Query, warnings: list[str]
    ) -> list[Sequence[IndexHit]]:
        scope, most = query.scope, query.candidates
        fresh, missing = self.unindexed.find(question.needles, scope, limit=most)
        _note_missing(missing, warnings)
        found: list[Sequence[IndexHit]] = [fresh]
        try:
            found.append(self.lexical.find(question.terms, scope, limit=most))
            for then in _narrow_to_times(question, scope):
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
    ) -> "_Near | None":
        if self.vectors is None or embedded is None:
            return None
        try:
            vector = embedded.result(EMBEDDING_SECONDS)
            index = self.vectors.index
            found = [index.find_nearest(vector, query.scope, limit=query.candidates)]
            found += [
                index.find_nearest(vector, then, limit=DATED_HITS)
                for then in _narrow_to_times(question, query.scope)
            ]
        except TimeoutError:
            warnings.append("searched by words alone: the embedder takes too long")
            return None
        except (EmbedderFailed, IndexFailed) as exc:
            warnings.append(f"searched by words alone: {exc}")
            return None
        waiting = self.vectors.count_pending()
        if waiting > min(BACKLOG, index.stats().documents):
            what = "change is" if waiting == 1 else "changes are"
            warnings.append(f"{waiting:,} {what} not embedded yet")
        return _Near(vector=vector, index=index, found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """The documents nearest to a question in meaning, and a way to compare any other."""

    vector: Vector
    index: VectorIndex
    found: Sequence[Sequence[IndexHit]]


class _Pool:
    """The candidates, and the turns around the foremost events."""

    def __init__(self, log: EventLog, documents: DocumentReader) -> None:
        self._log = log
        self._documents = documents
        self._runs: dict[EventId, list[EventId]] = {}  # consecutive turns
        self._turns: dict[EventId, Document] = {}
        self._others: dict[DocumentKey, Document] = {}

    def add(self, answers: Iterable[Sequence[IndexHit]]) -> None:
        """Add the hits of an index, best first."""
        wide: dict[EventId, IndexHit] = {}
        wanted: dict[EventId, Position] = {}
        others: dict[DocumentKey, IndexHit] = {}
        for answer in answers:
            for number, each in enumerate(answer):
                if each.kind is not DocumentKind.EVENT:
                    others.setdefault(each.key, each)
                elif number < TOP_HITS:
                    wide[EventId(each.id)] = each
                else:
                    wanted[EventId(each.id)] = each.position
        new = [each for event_id, each in wide.items() if event_id not in self._runs]
        places = [(SessionId(each.session), each.position) for each in new]
        for each, run in zip(
            new, self._log.get_neighbors(places, reach=ranking.REACH), strict=True
        ):
            wanted |= {at.event_id: at for at in run}
            self._runs[EventId(each.id)] = [at.event_id for at in run]
        unread = [at for event_id, at in wanted.items() if event_id not in self._turns]
        for event in self._log.get_at(unread):
            for document in documents.from_event(event):
                self._turns[event.event_id] = document
        self._others |= self._documents.read(
            [e for k, e in others.items() if k not in self._others]
        )

    def candidates(self, near: _Near | None) -> list[Candidate]:
        pool = [Candidate(document=document) for document in self._turns.values()]
        _link(pool, {name: place for place, name in enumerate(self._turns)}, self._runs.values())
        pool += [Candidate(document=document) for document in self._others.values()]
        if near is not None:
            keys = [candidate.document.key for candidate in pool]
            cosines = near.index.compute_cosines(near.vector, keys)
            for candidate, cosine in zip(pool, cosines, strict=True):
                candidate.cosine = cosine
        return pool


def _narrow_to_times(question: ParsedQuestion, scope: SearchScope) -> Iterator[SearchScope]:
    """Yield the scope narrowed to each time that the question names, latest first."""
    ranges = dict.fromkeys(
        span
        for window in question.windows[:_WINDOWS]
        for span in window.ranges[: -_RANGES - 1 : -1]
    )
    for start, end in ranges:
        since, until = max(start, scope.since), min(end, scope.until)
        if since <= until:
            yield replace(scope, since=since, until=until)


def _link(
    pool: Sequence[Candidate],
    places: Mapping[EventId, int],
    runs: Iterable[Sequence[EventId]],
) -> None:
    """Link each turn to those before and after it."""
    follows: dict[int, int] = {}
    for run in runs:
        follows |= pairwise([places[name] for name in run if name in places])
    precedes = {later: earlier for earlier, later in follows.items()}
    for place, candidate in enumerate(pool):
        if place in precedes:
            candidate.before = _walk_links(place, precedes)
        if place in follows:
            candidate.after = _walk_links(place, follows)


def _walk_links(place: int, links: Mapping[int, int]) -> tuple[int, ...]:
    steps: list[int] = []
    while len(steps) < ranking.REACH and place in links:
        place = links[place]
        steps.append(place)
    return tuple(steps)


def _fold_duplicates(
    ranked: Iterable[Ranked], pool: Sequence[Candidate], scope: SearchScope
) -> Iterator[tuple[Ranked, str]]:
    """Yield hits in scope, each once: leave out a hit that says the same as a better one, and
    the lesser of an event and a grip in it. Each comes with the id of a grip in it, if there is
    one."""
    together = _pair_events_with_grips(pool)
    said: set[bytes] = set()
    covered: set[DocumentKey] = set()
    for each in ranked:
        document = pool[each.place].document
        if document.kind in (DocumentKind.EVENT, DocumentKind.MEMORY) and not scope.admits(
            document
        ):
            continue  # a neighboring turn, or a memory that has changed since it was indexed
        if document.kind is DocumentKind.MEMORY:
            yield each, ""  # two memories with the same content are two memories
            continue
        bare = _normalize(document.text)
        if bare in said:
            continue
        grip_id = ""
        if together:
            if document.key in covered:
                continue
            for other in together.get(document.key, ()):
                covered.add(other.key)
                grip_id = grip_id or (other.id if other.kind is DocumentKind.GRIP else "")
        if len(bare) >= _DISTINCT:
            said.add(bare)
        yield each, grip_id


def _normalize(text: str) -> bytes:
    """Reduce a text to what is left without case, blanks and punctuation."""
    return text[:_COMPARED].lower().encode().translate(None, _MARKS)


def _pair_events_with_grips(pool: Sequence[Candidate]) -> dict[DocumentKey, list[Document]]:
    """Map events to the grips in them, and grips to their events."""
    events: dict[tuple[str, Millis], list[Document]] = defaultdict(list)
    grips: list[Document] = []
    for candidate in pool:
        document = candidate.document
        if document.kind is DocumentKind.EVENT:
            events[document.session, document.at_ms].append(document)
        elif document.kind is DocumentKind.GRIP:
            grips.append(document)
    found: dict[DocumentKey, list[Document]] = defaultdict(list)
    for grip in grips:
        for event in events[grip.session, grip.at_ms]:
            if grip.text in event.text:
                found[grip.key].append(event)
                found[event.key].append(grip)
    return found


def _note_missing(count: int, warnings: list[str]) -> None:
    if count:
        warnings.append(f"{count:,} changes are not in the index yet")


def _note_failed(warnings: list[str]) -> None:
    note = "the index of words cannot be read and will be rebuilt"
    if note not in warnings:
        warnings.append(note)


def _newest_first(found: IndexHit) -> tuple[int, str]:
    return -found.at_ms, found.key
