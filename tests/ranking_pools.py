"""Candidates to rank, each with its document, and ranked by text."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import SearchMode, TermStatistics, to_index_hit
from agent_memory.features.recall.model import questions, ranking
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.features.recall.model.ranking import Candidate, Ranked
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis
from tests.recall_parts import HOUR, MINUTE, NOW

BEGIN = Millis(NOW - HOUR)


@dataclass(slots=True, kw_only=True)
class Found(Candidate):
    """A candidate with its document."""

    document: Document


def build_turn(
    text: str,
    at: int = BEGIN,
    *,
    name: str = "",
    speaker: str = "",
    role: str = "user",
    kind: DocumentKind = DocumentKind.EVENT,
) -> Document:
    name = name or f"{at:013}"
    return Document(
        kind=kind,
        id=name,
        owner=Owner(f"{kind}:{name}"),
        at_ms=Millis(at),
        text=text,
        speaker=speaker,
        role=role,
    )


def separate(*found: Document) -> list[Found]:
    """Each in a conversation of its own."""
    return [
        Found(key=each.key, hit=to_index_hit(each), vector=term_vectors.build(each), document=each)
        for each in found
    ]


def conversation(*texts: str, speaker: str = "") -> list[Found]:
    """Turns of a user and an assistant, a minute apart."""
    pool = separate(
        *(
            build_turn(
                text,
                BEGIN + n * MINUTE,
                speaker=speaker,
                role=("user", "assistant")[n % 2],
            )
            for n, text in enumerate(texts)
        )
    )
    for place, candidate in enumerate(pool):
        candidate.before = tuple(range(place - 1, max(-1, place - 1 - ranking.REACH), -1))
        candidate.after = tuple(range(place + 1, min(len(pool), place + 1 + ranking.REACH)))
    return pool


def counted(pool: Sequence[Found], question: ParsedQuestion) -> TermStatistics:
    """As an index of just these would count."""
    texts = [each.document.text for each in pool]
    known = [set(analysis.extract_terms(text)) for text in texts]
    return TermStatistics(
        documents=len(texts),
        frequencies={term: sum(term in words for words in known) for term in question.terms},
    )


def ranked(
    question: str | ParsedQuestion, pool: Sequence[Found], mode: SearchMode = SearchMode.BM25
) -> dict[str, Ranked]:
    """By text, best first."""
    wanted = questions.parse_question(question, NOW) if isinstance(question, str) else question
    found = ranking.calibrate(ranking.rank(wanted, pool, counted(pool, wanted), mode), mode)
    return {pool[each.place].document.text: each for each in found}


def list_ranked(
    question: str | ParsedQuestion, pool: Sequence[Found], mode: SearchMode = SearchMode.BM25
) -> list[str]:
    return list(ranked(question, pool, mode))


def speakers(*names: str) -> frozenset[str]:
    return frozenset(term for name in names for term in analysis.extract_terms(name))
