"""Search what the word index does not have yet: records newer than its last commit."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

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
from agent_memory.kernel.text import analysis

MOST = 2_000  # entries; an index is further behind only while it is filled or its job is paused
_SEARCHED = 100_000  # characters searched per text
_COUNTED = 100  # documents whose words are counted
_COUNTED_CHARS = 10_000  # characters counted per document: word frequencies need not be exact
_KEPT_CHARS = 4 << 20  # characters of the documents whose term vectors are kept


@dataclass(frozen=True)
class UnindexedDocument:
    """A document with its words, which are extracted on first use."""

    document: Document  # without its text, which may be long
    said: str  # text in which words are counted
    text: str  # folded text in which needles are searched

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

    def forget(self, number: int) -> None:
        """Drop everything up to this entry."""
        if number <= self.forgotten:
            return
        self.forgotten = number
        self.unread = {entry: n for entry, n in self.unread.items() if n > number}
        self.held = {owner: each for owner, each in self.held.items() if each[0] > number}

    def read(self, documents: DocumentReader) -> Iterator[UnindexedDocument]:
        if self.unread:
            newest = max(self.unread.values())
            for owner, found in documents.read_owned(self.unread).items():
                self.held[owner] = (newest, [_fresh(each) for each in found])
            self.unread = {}
        for _, fresh in self.held.values():
            yield from fresh


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
        self._vectors: dict[tuple[DocumentKey, int], TermVector] = {}
        self._vector_chars = 0
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
        held, missing = self._current(scope)
        counts = [0] * len(held)
        for needle in needles:
            for place, each in enumerate(held):
                if needle in each.text:
                    counts[place] += 1
        matching = [
            (count, each.document)
            for count, each in zip(counts, held, strict=True)
            if count and scope.admits(each.document)
        ]
        matching.sort(key=lambda found: (-found[0], -found[1].at_ms, found[1].key))
        return [queries.to_index_hit(document) for _, document in matching[:limit]], missing

    def all(self, scope: SearchScope) -> tuple[list[IndexHit], int]:
        held, missing = self._current(scope)
        return [queries.to_index_hit(e.document) for e in held if scope.admits(e.document)], missing

    def statistics(self, terms: Sequence[str], scope: SearchScope) -> TermStatistics:
        """Count words in the newest documents: they are few beside those of the index."""
        held = self._current(scope)[0][-_COUNTED:]
        speakers = frozenset().union(*(each.speaker_terms for each in held))
        return TermStatistics(
            documents=len(held),
            frequencies={term: sum(term in each.terms for each in held) for term in terms},
            speakers=speakers.intersection(terms),
        )

    def build_vector(self, document: Document) -> TermVector:
        """Build the term vector of a document that has none yet. Recent ones are kept: the next
        question finds many of the same documents. Their texts are not kept: they may be
        forgotten."""
        name = document.key, hash(document)
        with self._reading:
            vector = self._vectors.get(name)
        if vector is None:
            vector = term_vectors.build(document)
            with self._reading:
                if self._vector_chars > _KEPT_CHARS:
                    self._vectors, self._vector_chars = {}, 0
                self._vectors[name] = vector
                self._vector_chars += len(document.text)
        return vector

    def _current(self, scope: SearchScope) -> tuple[list[UnindexedDocument], int]:
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
            wanted = [
                part
                for part in self._parts.values()
                if not scope.kinds or not scope.kinds.isdisjoint(part.kinds)
            ]
            return [each for part in wanted for each in part.read(self._documents)], missing


def _fresh(document: Document) -> UnindexedDocument:
    said = documents.join_text(document)[:_SEARCHED]
    text = analysis.fold(f"{said}\n{documents.describe_origin(document)}")
    return UnindexedDocument(replace(document, text=""), said, text)
