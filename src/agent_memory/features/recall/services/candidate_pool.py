"""The candidates of a question: what the indexes found, and the turns around the foremost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKey, DocumentKind
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import IndexHit
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.features.index.ports import PartCosines, TermVectors, VectorIndex
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.recall.model import ranking
from agent_memory.features.recall.model.ranking import Candidate
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.kernel.ids import Position, SessionId

TOP_HITS = 20  # top hits of each index whose neighboring turns are candidates too


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDocuments:
    """The documents nearest to a question in meaning, and a way to compare any other."""

    vector: Vector
    index: VectorIndex
    unrelated: float  # the cosine of two texts that have nothing to do with each other
    found: Sequence[Sequence[IndexHit]]

    def measure(self, keys: Sequence[DocumentKey]) -> list[tuple[float | None, int]]:
        """Return how near each document is, from 0 to 1, and its nearest part."""
        return [
            (None, 0) if each is None else (self._measure(each), each.part)
            for each in self.index.compute_cosines(self.vector, keys)
        ]

    def _measure(self, cosines: PartCosines) -> float:
        # The nearest part alone would favor long texts, which have more parts.
        cosine = (cosines.nearest + cosines.average) / 2
        return max(0.0, (cosine - self.unrelated) / (1.0 - self.unrelated))


class CandidatePool:
    """Candidates by their words and meaning. Texts are read only where they are needed."""

    def __init__(
        self,
        log: EventLog,
        reader: DocumentReader,
        terms: TermVectors,
        unindexed: UnindexedDocuments,
    ) -> None:
        self._log = log
        self._reader = reader
        self._terms = terms
        self._unindexed = unindexed
        self._found: dict[DocumentKey, IndexHit] = {}
        self._turns: dict[DocumentKey, IndexHit] = {}  # beside what was found
        self._runs: dict[DocumentKey, list[DocumentKey]] = {}  # consecutive turns
        self._ends: list[list[DocumentKey]] = []  # runs to the end of their sessions
        self._documents: dict[DocumentKey, Document] = {}

    def add(self, answers: Iterable[Sequence[IndexHit]]) -> None:
        """Add the hits of an index, best first."""
        wide: dict[DocumentKey, IndexHit] = {}
        for answer in answers:
            for number, hit in enumerate(answer):
                key = hit.key
                self._found.setdefault(key, hit)
                if hit.kind is DocumentKind.EVENT and number < TOP_HITS:
                    wide[key] = hit
        new = {key: hit for key, hit in wide.items() if key not in self._runs}
        places = [(SessionId(hit.session), hit.position) for hit in new.values()]
        runs = self._log.get_neighbors(places, reach=ranking.REACH)
        for (key, hit), run in zip(new.items(), runs, strict=True):
            self._add_run(key, hit, run)

    def _add_run(self, key: DocumentKey, hit: IndexHit, run: Sequence[Position]) -> None:
        turns = [IndexHit(hit.kind, at.event_id, at.at_ms, hit.session, 0.0) for at in run]
        names = [turn.key for turn in turns]
        self._turns |= zip(names, turns, strict=True)
        self._runs[key] = names
        if key in names and len(names) - names.index(key) <= ranking.REACH:
            self._ends.append(names)

    def is_found(self, key: DocumentKey) -> bool:
        """Tell whether an index found it: then it is in scope, unless it has changed since."""
        return key in self._found

    def read(self, hits: Iterable[IndexHit]) -> Mapping[DocumentKey, Document]:
        """Read the documents that still exist."""
        unread = [hit for hit in hits if hit.key not in self._documents]
        if unread:
            self._documents |= self._reader.read(unread)
        return self._documents

    def build(self, near: NearDocuments | None) -> list[Candidate]:
        """Return the candidates. Hits that the log does not have any more are left out."""
        hits = {
            key: hit
            for key, hit in (self._turns | self._found).items()
            if key in self._runs.get(key, (key,))
        }
        pool = [
            Candidate(key=key, hit=hits[key], vector=vector)
            for key, vector in self._get_vectors(hits).items()
            if vector is not None
        ]
        memories = [c for c in pool if c.hit.kind is DocumentKind.MEMORY]
        read = self.read(candidate.hit for candidate in memories)
        for candidate in memories:
            document = read.get(candidate.key)
            candidate.is_pending = document is not None and document.status == MemoryStatus.PENDING
        keys = [candidate.key for candidate in pool]
        places = {key: place for place, key in enumerate(keys)}
        _link(pool, places, self._runs.values())
        for run in self._ends:
            for last in [places[name] for name in run if name in places][-1:]:
                pool[last].ends_session = True
        if near is not None:
            for candidate, (meaning, part) in zip(pool, near.measure(keys), strict=True):
                candidate.meaning, candidate.part = meaning, part
        return pool

    def _get_vectors(
        self, hits: Mapping[DocumentKey, IndexHit]
    ) -> dict[DocumentKey, TermVector | None]:
        """Return the term vectors; None for a turn without text. One that is not stored is made
        from the text."""
        owners = {key: documents.owner_of(hit.kind, hit.id) for key, hit in hits.items()}
        stored = {key: owner for key, owner in owners.items() if owner is not None}
        vectors = dict.fromkeys(hits) | dict(
            zip(stored, self._terms.get(list(stored.values())), strict=True)
        )
        missing = [key for key, vector in vectors.items() if vector is None]
        return vectors | self._unindexed.get_vectors(
            missing, lambda keys: self.read(hits[key] for key in keys)
        )


def _link(
    pool: Sequence[Candidate],
    places: Mapping[DocumentKey, int],
    runs: Iterable[Sequence[DocumentKey]],
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
