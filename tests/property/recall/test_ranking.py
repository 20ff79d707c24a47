"""Ranking, whatever is asked of whatever was found: scores, order, and what counts as a match."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import SearchMode, TermStatistics, to_index_hit
from agent_memory.features.recall.model import questions, ranking
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.features.recall.model.ranking import Candidate
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.text import analysis
from tests.recall_parts import DAY, NOW

unhurried = settings(deadline=None)
Style = Callable[[str], str]

WORDS = ("lantern", "attic", "city", "cities", "parseHeader", "where?", "the", "café", "東京都")
QUESTIONS = (*WORDS, "Ada", "last week", "in May", "yesterday", "my", "?")
KINDS = (DocumentKind.EVENT, DocumentKind.EVENT, *DocumentKind)

texts = st.lists(st.sampled_from(WORDS), max_size=80).map(" ".join)
asked_texts = st.lists(st.sampled_from(QUESTIONS), max_size=6).map(" ".join)
times = st.one_of(
    st.integers(0, MAX_MILLIS), st.integers(0, 60).map(lambda days: NOW - days * DAY)
).map(Millis)
meanings = st.one_of(st.none(), st.floats(0.0, 1.0, width=16))


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate before it has a place."""

    document: Document
    meaning: float | None
    ends_session: bool
    follows: int | None  # the one before it in its conversation


@st.composite
def pools(draw: st.DrawFn) -> list[Found]:
    found: list[Found] = []
    last: dict[int, int] = {}
    for number in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(KINDS))
        document = Document(
            kind=kind,
            id=f"{number}",
            owner=Owner(f"{kind}:{number}"),
            at_ms=draw(times),
            text=draw(texts),
            title=draw(st.sampled_from(("", "lantern"))),
            speaker=draw(st.sampled_from(("", "Ada", "Ben"))),
            role=draw(st.sampled_from(("", "user", "assistant"))),
        )
        session = draw(st.integers(0, 1))
        follows = last.get(session) if kind is DocumentKind.EVENT else None
        if kind is DocumentKind.EVENT:
            last[session] = number
        found.append(Found(document, draw(meanings), draw(st.booleans()), follows))
    return found


def arranged(found: Sequence[Found], places: Sequence[int]) -> list[Candidate]:
    """The same candidates, each in the place given for it."""
    precedes = {number: each.follows for number, each in enumerate(found)}
    comes = {each.follows: number for number, each in enumerate(found)}
    pool = [
        Candidate(
            key=each.document.key,
            hit=to_index_hit(each.document),
            vector=term_vectors.build(each.document),
            meaning=each.meaning,
            ends_session=each.ends_session,
        )
        for each in found
    ]
    for number, candidate in enumerate(pool):
        for name, links in (("before", precedes), ("after", comes)):
            steps: list[int] = []
            at = links.get(number)
            while at is not None and len(steps) < ranking.REACH:
                steps.append(places[at])
                at = links.get(at)
            setattr(candidate, name, tuple(steps))
    by_place = dict(zip(places, pool, strict=True))
    return [by_place[place] for place in range(len(pool))]


def asked(question: str) -> ParsedQuestion:
    return questions.resolve_speakers(
        questions.parse_question(question, NOW), frozenset(analysis.extract_terms("Ada Ben"))
    )


@st.composite
def statistics(draw: st.DrawFn, question: ParsedQuestion) -> TermStatistics:
    """Of an index that knows more, less or other things than the pool holds."""
    count = st.integers(0, 1_000)
    return TermStatistics(
        documents=draw(count),
        frequencies={term: draw(count) for term in question.terms if draw(st.booleans())},
    )


@unhurried
@given(texts.filter(str.strip), asked_texts, st.sampled_from(SearchMode))
def test_a_settled_memory_comes_before_the_same_one_that_awaits_review(
    text: str, question: str, mode: SearchMode
) -> None:
    pool = [
        Candidate(
            key=document.key,
            hit=to_index_hit(document),
            vector=term_vectors.build(document),
            meaning=0.5,
            is_pending=document.at_ms == NOW,
        )
        for document in (
            Document(
                kind=DocumentKind.MEMORY, id=f"{at}", owner=Owner(f"{at}"), at_ms=at, text=text
            )
            for at in (NOW, Millis(NOW - 1))
        )
    ]
    ranked = ranking.rank(asked(question), pool, TermStatistics(documents=2, frequencies={}), mode)
    assert [each.place for each in ranked] == [1, 0]


@unhurried
@given(st.data(), pools(), asked_texts, st.sampled_from(SearchMode))
def test_scores_are_from_0_to_1_and_fall(
    data: st.DataObject, found: list[Found], question: str, mode: SearchMode
) -> None:
    wanted = asked(question)
    pool = arranged(found, range(len(found)))
    ranked = ranking.calibrate(
        ranking.rank(wanted, pool, data.draw(statistics(wanted)), mode), mode
    )
    assert sorted(each.place for each in ranked) == list(range(len(pool)))
    scores = [round(each.score, 4) for each in ranked]
    assert all(0.0 <= score <= 1.0 for score in scores)  # and none is NaN
    assert scores == sorted(scores, reverse=True)
    for each in ranked:
        assert set(each.parts) <= {"words", "meaning", "speaker", "time"}
        assert all(each.parts.values())
        assert 0.0 <= each.words <= 1.0
        assert 0.0 <= each.meaning <= 1.0 + 1e-9
        assert each.evidence <= each.words + each.meaning + each.speaker + each.time + 1e-9 or (
            pool[each.place].hit.kind is DocumentKind.MEMORY
        )


@unhurried
@given(st.data(), pools(), asked_texts, st.sampled_from(SearchMode))
def test_the_same_candidates_in_any_arrangement_have_the_same_order(
    data: st.DataObject, found: list[Found], question: str, mode: SearchMode
) -> None:
    wanted = asked(question)
    known = data.draw(statistics(wanted))
    answers = []
    for places in (list(range(len(found))), data.draw(st.permutations(range(len(found))))):
        pool = arranged(found, places)
        ranked = ranking.rank(wanted, pool, known, mode)
        answers.append([(pool[each.place].hit.key, each.score) for each in ranked])
    assert [key for key, _ in answers[0]] == [key for key, _ in answers[1]]
    assert [score for _, score in answers[0]] == pytest.approx([score for _, score in answers[1]])


BASES = ("cit", "fl", "run", "caf", "pass", "part", "lantern", "se", "agre", "tr", "x", "parseHttp")
ENDINGS = (
    "",
    "s",
    "es",
    "ies",
    "y",
    "e",
    "ed",
    "ied",
    "ing",
    "ning",
    "é",
    "Parts",
    "7",
    "'s",
    "都",
)
ACCENTS = str.maketrans("acenou", "äçéñôü")

bases = st.one_of(
    st.sampled_from(BASES),
    st.text(st.sampled_from("abesyéüñçøß\u0430\u044f7東京ガ한กT"), min_size=1, max_size=4),
)
styles = st.sampled_from(
    (str.lower, str.upper, str.title, lambda word: word, lambda word: word.translate(ACCENTS))
)


@settings(deadline=None, max_examples=4 * settings().max_examples)
@given(bases, st.tuples(*[st.sampled_from(ENDINGS)] * 2), st.tuples(styles, styles))
def test_a_text_matches_in_words_where_it_has_a_term_of_the_question(
    base: str, endings: tuple[str, str], written: tuple[Style, Style]
) -> None:
    """Whatever is done to pass over texts quickly, none that has one may be passed over."""
    question = questions.parse_question(written[0](base + endings[0]), NOW)
    text = "it is " + written[1](base + endings[1])
    has = not set(question.terms).isdisjoint(analysis.extract_terms(text))
    document = Document(
        kind=DocumentKind.EVENT, id="x", owner=Owner("event:x"), at_ms=NOW, text=text, role="user"
    )
    known = TermStatistics(documents=10, frequencies={})
    pool = [
        Candidate(key=document.key, hit=to_index_hit(document), vector=term_vectors.build(document))
    ]
    (ranked,) = ranking.rank(question, pool, known, SearchMode.BM25)
    assert (ranked.parts.get("words", 0.0) > 0.0) == has
