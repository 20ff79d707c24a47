"""Search what the word index does not have yet: records newer than its last commit."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, repeat
from operator import add, attrgetter, contains

from agent_memory.features.index.model import documents, queries, term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind, Owner
from agent_memory.features.index.model.queries import IndexHit, SearchScope, TermStatistics
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.features.index.ports import LexicalIndex
from agent_memory.features.log.model.outbox import (
    EventChanged,
    FactChanged,
    MemoryChanged,
    OutboxEntry,
    SegmentChanged,
)
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal
from agent_memory.kernel.text import analysis

MOST = 2_000  # entries; an index is further behind only while it is filled or its job is paused
_SEARCHED = 100_000  # characters searched per text
_COUNTED = 100  # documents whose words are counted
_VIEWS = 32  # callers whose words are counted once for many questions
_COUNTED_CHARS = 10_000  # characters counted per document: word frequencies need not be exact
_KEPT_CHARS = 10_000  # the term vector of a longer document is built for each question

ReadDocuments = Callable[[Sequence[DocumentKey]], Mapping[DocumentKey, Document]]


@dataclass(eq=False)
class UnindexedDocument:
    """A document with its words, which are extracted on first use."""

    document: Document  # without its text, which may be long
    said: str  # text in which words are counted
    text: str  # folded text in which needles are searched
    vector: TermVector | None = None  # once a question has needed it

    @cached_property
    def order(self) -> tuple[int, DocumentKey]:
        """Sort by this for the newest first."""
        return -self.document.at_ms, self.document.key

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(analysis.extract_terms(self.said[:_COUNTED_CHARS]))

    @cached_property
    def speaker_terms(self) -> frozenset[str]:
        return frozenset(analysis.extract_terms(self.document.speaker or self.document.role))


@dataclass(slots=True)
class _Part:
    """New entries of some kinds of documents: those not read yet, and the documents behind the
    others. A question about memories need not read a thousand new events."""

    kinds: frozenset[DocumentKind]
    unread: dict[OutboxEntry, int] = field(default_factory=dict)
    held: dict[Owner, tuple[int, list[UnindexedDocument]]] = field(default_factory=dict)
    forgotten: int = 0
    version: int = 0  # of what is held

    def forget(self, number: int) -> None:
        """Drop everything up to this entry."""
        if number <= self.forgotten:
            return
        self.forgotten = number
        self.unread = {entry: n for entry, n in self.unread.items() if n > number}
        self.held = {owner: each for owner, each in self.held.items() if each[0] > number}
        self.version += 1

    def read(self, documents: DocumentReader) -> None:
        if self.unread:
            newest = max(self.unread.values())
            for owner, found in documents.read_owned(self.unread).items():
                self.held[owner] = (newest, [_fresh(each) for each in found])
            self.unread = {}
            self.version += 1


class _Snapshot:
    """The documents of some parts, newest first, until one of these parts changes.

    Many questions are asked of it, each of them several times.
    """

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = [(part, part.version) for part in parts]
        held = chain.from_iterable(part.held.values() for part in parts)
        self.documents = sorted(
            chain.from_iterable(fresh for _, fresh in held), key=attrgetter("order")
        )
        self.texts = [each.text for each in self.documents]
        self._views: dict[Principal | None, _Counts] = {}

    @property
    def is_current(self) -> bool:
        return all(part.version == version for part, version in self._parts)

    @cached_property
    def by_key(self) -> dict[DocumentKey, UnindexedDocument]:
        return {each.document.key: each for each in self.documents}

    def count_for(self, caller: Principal | None) -> "_Counts":
        """Return the counts of the newest documents that a caller sees."""
        counts = self._views.get(caller)
        if counts is None:
            seen = (
                each
                for each in self.documents
                if caller is None or documents.is_visible(each.document, caller)
            )
            if len(self._views) >= _VIEWS:
                self._views = {}
            counts = self._views[caller] = _Counts(list(islice(seen, _COUNTED)))
        return counts


class _Counts:
    def __init__(self, counted: Sequence[UnindexedDocument]) -> None:
        self.counted = counted

    @cached_property
    def frequencies(self) -> Counter[str]:
        return Counter(chain.from_iterable(each.terms for each in self.counted))

    @cached_property
    def speakers(self) -> frozenset[str]:
        return frozenset().union(*(each.speaker_terms for each in self.counted))


class UnindexedDocuments:
    def __init__(
        self, documents: DocumentReader, log: EventLog, outbox: Outbox, lexical: LexicalIndex
    ) -> None:
        self._documents = documents
        self._log = log
        self._outbox = outbox
        self._lexical = lexical
        self._reading = threading.Lock()
        self._end = 0
        self._indexed: int | None = None
        self._snapshots: dict[frozenset[DocumentKind], _Snapshot] = {}
        self._parts: dict[type[OutboxEntry], _Part] = {
            EventChanged: _Part(frozenset({DocumentKind.EVENT})),
            SegmentChanged: _Part(frozenset({DocumentKind.SEGMENT, DocumentKind.GRIP})),
            MemoryChanged: _Part(frozenset({DocumentKind.MEMORY})),
            FactChanged: _Part(frozenset({DocumentKind.FACT})),
        }

    def find(
        self, needles: Sequence[str], scope: SearchScope, *, limit: int
    ) -> tuple[list[IndexHit], int]:
        """Return the documents in scope with the most needles, and how many entries were skipped
        because there are too many."""
        snapshot, missing = self._current(scope)
        counts = [0] * len(snapshot.texts)
        for needle in needles:
            counts = list(map(add, counts, map(contains, snapshot.texts, repeat(needle))))
        matching = [place for place, count in enumerate(counts) if count]
        matching.sort(key=counts.__getitem__, reverse=True)  # the newest first among equals
        found = (snapshot.documents[place].document for place in matching)
        admitted = (document for document in found if scope.admits(document))
        return [queries.to_index_hit(document) for document in islice(admitted, limit)], missing

    def all(self, scope: SearchScope) -> tuple[list[IndexHit], int]:
        snapshot, missing = self._current(scope)
        found = (each.document for each in snapshot.documents)
        return [queries.to_index_hit(each) for each in found if scope.admits(each)], missing

    def statistics(self, terms: Sequence[str], scope: SearchScope) -> TermStatistics:
        """Count words in the newest documents: they are few beside those of the index."""
        snapshot, _ = self._current(scope)
        counts = snapshot.count_for(scope.caller)
        return TermStatistics(
            documents=len(counts.counted),
            frequencies={term: counts.frequencies[term] for term in terms},
            speakers=counts.speakers.intersection(terms),
        )

    def get_vectors(
        self, keys: Sequence[DocumentKey], read: ReadDocuments
    ) -> dict[DocumentKey, TermVector]:
        """Return the term vectors of documents that have none in the index yet. `read` reads those
        that no question has needed so far."""
        with self._reading:
            held = [each.by_key for each in self._snapshots.values() if each.is_current]
        fresh = {key: each[key] for each in held for key in keys if key in each}
        known = {key: each.vector for key, each in fresh.items() if each.vector is not None}
        unknown = [key for key in keys if key not in known]
        texts = read(unknown) if unknown else {}
        built = {key: term_vectors.build(texts[key]) for key in unknown if key in texts}
        for key in built.keys() & fresh.keys():
            if len(fresh[key].text) <= _KEPT_CHARS:
                fresh[key].vector = built[key]
        return known | built

    def _current(self, scope: SearchScope) -> tuple[_Snapshot, int]:
        # What is kept is for all callers. The scope says who may find it.
        with self._reading, access.lift_restrictions():
            cursor = self._lexical.cursor()
            if cursor is None and self._indexed is not None:
                self._end = 0  # the index lost its cursor
                for part in self._parts.values():
                    part.forgotten = 0
            self._indexed = cursor
            indexed = cursor or 0
            newest = self._log.watermark()
            for part in self._parts.values():
                part.forget(max(indexed, newest - MOST))
            start = max(indexed, self._end, newest - MOST)
            for number, entry in self._outbox.read(start, limit=MOST):
                self._end = number
                self._parts[type(entry)].unread[entry] = number
            if cursor is None:  # trimmed outbox entries are found through the store alone
                oldest = self._outbox.read(0, limit=1)
                never_indexed = oldest[0][0] - 1 if oldest else newest
                missing = max(never_indexed, newest - MOST)
            else:
                missing = max(0, newest - MOST - indexed)
            return self._take_snapshot(scope.kinds), missing

    def _take_snapshot(self, kinds: frozenset[DocumentKind]) -> _Snapshot:
        wanted = [
            part for part in self._parts.values() if not kinds or not kinds.isdisjoint(part.kinds)
        ]
        for part in wanted:
            part.read(self._documents)
        snapshot = self._snapshots.get(kinds)
        if snapshot is None or not snapshot.is_current:
            # An old one may have texts that are forgotten.
            self._snapshots = {k: each for k, each in self._snapshots.items() if each.is_current}
            snapshot = self._snapshots[kinds] = _Snapshot(wanted)
        return snapshot


def _fresh(document: Document) -> UnindexedDocument:
    said = documents.join_text(document)[:_SEARCHED]
    text = analysis.fold(f"{said}\n{documents.describe_origin(document)}")
    return UnindexedDocument(replace(document, text=""), said, text)
