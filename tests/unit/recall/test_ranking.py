"""What makes one candidate a better answer than another. Order and reasons, not numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import pytest

from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import SearchMode, TermStatistics, to_index_hit
from agent_memory.features.recall.model import questions, ranking
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.features.recall.model.ranking import Candidate, Ranked
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis
from tests.recall_parts import DAY, HOUR, MINUTE, NOW, parse_time

BEGIN = Millis(NOW - HOUR)


def turn(
    text: str,
    at: int = BEGIN,
    *,
    name: str = "",
    speaker: str = "",
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
        role="user",
    )


def apart(*found: Document) -> list[Candidate]:
    """Each in a conversation of its own."""
    return [Candidate(hit=to_index_hit(each), vector=term_vectors.build(each)) for each in found]


def conversation(*texts: str) -> list[Candidate]:
    """Turns that follow one another, a minute apart."""
    pool = apart(*(turn(text, BEGIN + n * MINUTE) for n, text in enumerate(texts)))
    for place, candidate in enumerate(pool):
        candidate.before = tuple(range(place - 1, max(-1, place - 1 - ranking.REACH), -1))
        candidate.after = tuple(range(place + 1, min(len(pool), place + 1 + ranking.REACH)))
    return pool


def counted(pool: Sequence[Candidate], question: ParsedQuestion) -> TermStatistics:
    """As an index of just these would count."""
    texts = [each.document.text for each in pool]
    known = [set(analysis.extract_terms(text)) for text in texts]
    return TermStatistics(
        documents=len(texts),
        average_length=sum(map(analysis.estimate_length, texts)) / len(texts),
        frequencies={term: sum(term in words for words in known) for term in question.terms},
    )


def ranked(
    question: str | ParsedQuestion, pool: Sequence[Candidate], mode: SearchMode = SearchMode.BM25
) -> dict[str, Ranked]:
    """By text, best first."""
    wanted = questions.parse_question(question, NOW) if isinstance(question, str) else question
    found = ranking.rank(wanted, pool, counted(pool, wanted), mode)
    return {pool[each.place].document.text: each for each in found}


def order(
    question: str | ParsedQuestion, pool: Sequence[Candidate], mode: SearchMode = SearchMode.BM25
) -> list[str]:
    return list(ranked(question, pool, mode))


def speakers(*names: str) -> frozenset[str]:
    return frozenset(term for name in names for term in analysis.extract_terms(name))


class TestQuestions:
    def test_words_that_only_ask_are_left_out(self) -> None:
        question = questions.parse_question("What did we decide about the lantern?", NOW)
        assert question.terms == tuple(analysis.extract_terms("decide lantern"))

    def test_of_a_question_that_only_asks_all_words_count(self) -> None:
        question = questions.parse_question("what is it", NOW)
        assert question.terms == tuple(analysis.extract_terms("what is it"))

    def test_a_term_counts_once(self) -> None:
        assert questions.parse_question("dog dogs DOG", NOW).terms == ("dog",)

    def test_a_question_without_words_has_no_terms(self) -> None:
        question = questions.parse_question("?!", NOW)
        assert (question.terms, question.needles, question.windows) == ((), (), ())

    def test_a_possessive_is_the_word_itself(self) -> None:
        assert (
            questions.parse_question("Ada\u2019s lantern", NOW).terms
            == questions.parse_question("Ada lantern", NOW).terms
        )

    def test_a_time_is_taken_out_of_the_words(self) -> None:
        question = questions.parse_question("the deploy last week", NOW)
        assert question.terms == tuple(analysis.extract_terms("deploy"))
        assert question.windows


class TestWords:
    def test_what_has_the_words_comes_first(self) -> None:
        pool = apart(turn("The weather is fine."), turn("The lantern is in the attic.", BEGIN + 1))
        assert order("lantern", pool)[0] == "The lantern is in the attic."

    def test_what_meets_more_of_the_question_is_better(self) -> None:
        pool = apart(
            turn("lantern lantern lantern", BEGIN + 1), turn("the lantern, in some attic", BEGIN)
        )
        assert order("lantern attic", pool)[0] == "the lantern, in some attic"

    def test_a_rare_word_weighs_more_than_a_common_one(self) -> None:
        pool = apart(
            turn("an attic here"),
            turn("a lantern here", BEGIN - 1),
            *(turn(f"attic {number}", BEGIN - number) for number in range(2, 9)),
        )
        assert order("lantern attic", pool)[0] == "a lantern here"

    def test_a_short_text_with_the_word_is_better_than_a_long_one(self) -> None:
        short, long = "the lantern hangs here", "the lantern " + "and more " * 60
        assert order("lantern", apart(turn(long, BEGIN + 1), turn(short)))[0] == short

    def test_a_title_is_part_of_what_is_said(self) -> None:
        titled = replace(turn("In the attic."), title="Where the lantern is")
        found = ranked("lantern", apart(titled, turn("Somewhere else.", BEGIN + 1)))
        assert found["In the attic."].parts["words"] > 0
        assert "words" not in found["Somewhere else."].parts

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("city", "We saw many cities."),
            ("cities", "It is a city."),
            ("fly", "Time flies."),
            ("cafe", "We met at the café."),
            ("café", "We met at the Cafe."),
            ("eclair", "An éclair, please."),
            ("bar", "It is in fooBar."),
            ("fooBar", "There is a bar."),
            ("京都", "東京都に行く"),
            ("東京都", "京都に行く"),
        ],
    )
    def test_another_form_of_the_word_counts_like_the_word(self, question: str, text: str) -> None:
        found = ranked(question, apart(turn(text), turn("Nothing of it.", BEGIN + 1)))
        assert next(iter(found)) == text
        assert found[text].parts["words"] > 0


class TestNeighbours:
    def test_a_turn_has_words_from_those_around_it(self) -> None:
        pool = conversation("Zero.", "One.", "The lantern.", "Three.", "Four.")
        found = ranked("lantern", pool)
        assert next(iter(found)) == "The lantern."
        for text in ("One.", "Three."):
            assert 0 < found[text].parts["words"] < found["The lantern."].parts["words"]

    def test_the_nearer_the_more(self) -> None:
        reach = range(ranking.REACH)
        pool = conversation("The lantern.", *(f"And {number}." for number in reach))
        found = ranked("lantern", pool)
        flowed = [found[f"And {number}."].parts.get("words", 0.0) for number in reach]
        assert flowed == sorted(flowed, reverse=True)

    def test_beyond_its_reach_nothing_flows(self) -> None:
        between = [f"And {number}." for number in range(ranking.REACH)]
        found = ranked("lantern", conversation("The lantern.", *between, "Far."))
        assert found["Far."].parts == {}

    def test_a_turn_after_a_question_has_more_of_its_words(self) -> None:
        asks = ranked("lantern", conversation("Where is the lantern?", "In the attic."))
        tells = ranked("lantern", conversation("There is the lantern.", "In the attic."))
        asked, plain = asks["In the attic."].parts, tells["In the attic."].parts
        assert asked["words"] > plain["words"] > 0

    def test_only_the_turn_right_after_a_question_does(self) -> None:
        asks = ranked("lantern", conversation("Where is the lantern?", "Hm.", "In the attic."))
        tells = ranked("lantern", conversation("There is the lantern.", "Hm.", "In the attic."))
        asked, plain = asks["In the attic."].parts, tells["In the attic."].parts
        assert asked["words"] == pytest.approx(plain["words"])

    def test_a_long_turn_takes_little_from_those_around_it(self) -> None:
        long = "so it goes on " * 5 * ranking.LONG_TURN_WORDS
        found = ranked("lantern", conversation("Yes, there.", "The lantern.", long))
        short = ranked("lantern", conversation(long, "The lantern.", "Yes, there."))
        assert 0 < found[long].parts["words"] < short["Yes, there."].parts["words"] / 3

    def test_its_own_words_count_in_full_however_long_the_turns_around_are(self) -> None:
        pool = conversation("so it goes on " * 200, "The lantern.", "and on " * 200)
        alone = [Candidate(document=each.document) for each in pool]
        together, apart_ = ranked("lantern", pool), ranked("lantern", alone)
        assert together["The lantern."].score == pytest.approx(apart_["The lantern."].score)

    def test_meaning_is_evened_out_over_the_turns_around(self) -> None:
        pool = conversation("Zero.", "One.", "Two.", "Three.", "Four.", "Five.", "Six.")
        for candidate in pool:
            candidate.cosine = 0.0
        pool[3].cosine = 1.0
        found = ranked("?", pool, SearchMode.VECTOR)
        assert next(iter(found)) == "Three."
        assert {"Two.", "Four."} <= {text for text, each in found.items() if each.score > 0}
        assert found["Zero."].score == 0.0


class TestSpeakers:
    QUESTION = "What did Caroline say about pottery?"

    def test_a_name_is_no_part_of_what_was_said(self) -> None:
        plain = questions.parse_question(self.QUESTION, NOW)
        named = questions.resolve_speakers(plain, speakers("Caroline"))
        assert set(analysis.extract_terms("Caroline")) <= set(plain.terms)
        assert named.names == speakers("Caroline")
        assert not named.names & set(named.terms)
        assert "pottery" in named.meaning
        assert "Caroline" not in named.meaning

    def test_a_possessive_name_is_one_too(self) -> None:
        named = questions.resolve_speakers(
            questions.parse_question("Caroline's pottery", NOW), speakers("Caroline")
        )
        assert named.terms == tuple(analysis.extract_terms("pottery"))
        assert named.meaning == "pottery"

    def test_the_turns_of_the_one_who_is_named_are_better(self) -> None:
        pool = apart(
            turn("I love pottery, truly.", BEGIN + 1, name="a", speaker="Melanie"),
            turn("I like pottery, truly.", BEGIN, name="b", speaker="Caroline"),
        )
        question = questions.parse_question(self.QUESTION, NOW)
        assert order(question, pool)[0] == "I love pottery, truly."
        named = questions.resolve_speakers(question, speakers("Caroline"))
        found = ranked(named, pool)
        assert next(iter(found)) == "I like pottery, truly."
        assert found["I like pottery, truly."].parts["speaker"] > 0
        assert "speaker" not in found["I love pottery, truly."].parts

    def test_a_word_that_no_speaker_is_called_by_stays_a_word(self) -> None:
        question = questions.parse_question(self.QUESTION, NOW)
        assert questions.resolve_speakers(question, speakers("Melanie")) == question
        assert questions.resolve_speakers(question, frozenset()) == question

    def test_roles_are_words_of_any_question(self) -> None:
        question = questions.parse_question("the user table", NOW)
        assert questions.resolve_speakers(question, speakers("user", "tool", "system")) == question

    def test_a_question_that_is_only_a_name_keeps_it(self) -> None:
        named = questions.resolve_speakers(
            questions.parse_question("Caroline", NOW), speakers("Caroline")
        )
        assert named.terms == tuple(analysis.extract_terms("Caroline"))
        assert named.meaning == "Caroline"

    def test_only_turns_have_a_speaker(self) -> None:
        grip = turn("pottery", name="g", speaker="Caroline", kind=DocumentKind.GRIP)
        named = questions.resolve_speakers(
            questions.parse_question(self.QUESTION, NOW), speakers("Caroline")
        )
        assert "speaker" not in ranked(named, apart(grip))["pottery"].parts


class TestTime:
    @pytest.mark.parametrize(
        ("expression", "within", "outside"),
        [
            ("last week", "2026-06-03 10:00", "2026-05-20 10:00"),
            ("yesterday", "2026-06-09 10:00", "2026-06-05 10:00"),
            ("in May", "2026-05-14 10:00", "2026-03-14 10:00"),
            ("before the release on 3 June", "2026-06-02 10:00", "2026-06-09 10:00"),
            ("since Monday", "2026-06-09 10:00", "2026-06-01 10:00"),
            ("on 8 May 2023", "2023-05-08 10:00", "2023-05-02 10:00"),
        ],
    )
    def test_what_happened_then_is_better(self, expression: str, within: str, outside: str) -> None:
        pool = apart(
            turn("we changed the deploy script", parse_time(within), name="within"),
            turn("we changed a deploy script", parse_time(outside), name="outside"),
        )
        question = questions.parse_question(f"the deploy script {expression}", NOW)
        statistics = counted(pool, question)
        for mode in SearchMode:
            best, rest = ranking.rank(question, pool, statistics, mode)
            assert pool[best.place].document.id == "within"
            assert best.parts["time"] > rest.parts.get("time", 0.0)

    def test_things_are_told_some_days_after_they_happened(self) -> None:
        days = {"soon": "2026-05-12", "late": "2026-06-07", "before": "2026-04-25"}
        pool = apart(*(turn(name, parse_time(day), name=name) for name, day in days.items()))
        found = ranked("the deploy on 10 May 2026", pool)
        times = {text: each.parts.get("time", 0.0) for text, each in found.items()}
        assert times["soon"] > times["late"] >= times["before"] == 0.0

    def test_a_question_without_a_time_prefers_none(self) -> None:
        pool = apart(turn("deploy", NOW - 400 * DAY, name="a"), turn("deploy", NOW, name="b"))
        question = questions.parse_question("deploy", NOW)
        for each in ranking.rank(question, pool, counted(pool, question), SearchMode.BM25):
            assert "time" not in each.parts


class TestModes:
    def pool(self) -> list[Candidate]:
        pool = apart(turn("the lantern", BEGIN), turn("the old lamp", BEGIN + 1))
        pool[0].cosine, pool[1].cosine = 0.2, 0.7
        return pool

    def test_by_words_alone_meaning_does_not_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.BM25)
        assert list(found) == ["the lantern", "the old lamp"]
        assert all("meaning" not in each.parts for each in found.values())

    def test_by_meaning_alone_words_do_not_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.VECTOR)
        assert list(found) == ["the old lamp", "the lantern"]
        assert all("words" not in each.parts for each in found.values())

    def test_together_both_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.HYBRID)
        assert set(found["the lantern"].parts) == {"words", "meaning"}

    def test_what_is_not_embedded_yet_is_taken_to_be_as_near_as_most(self) -> None:
        pool = apart(turn("near"), turn("far"), turn("unknown"))
        pool[0].cosine, pool[1].cosine = 0.9, 0.1
        assert order("?", pool, SearchMode.VECTOR) == ["near", "unknown", "far"]

    @pytest.mark.parametrize("mode", SearchMode)
    def test_the_parts_add_up_to_the_score(self, mode: SearchMode) -> None:
        pool = conversation("Where is the lantern?", "In the attic.", "Fine.")
        for candidate, cosine in zip(pool, (0.5, 0.3, -0.1), strict=True):
            candidate.cosine = cosine
            candidate.document = replace(candidate.document, speaker="Ada")
        question = questions.resolve_speakers(
            questions.parse_question("Ada's lantern yesterday or today", NOW), speakers("Ada")
        )
        weight = {"words": 1.0, "meaning": 1.0, "speaker": 1.0, "time": 1.0}
        total = 1.0
        if mode is SearchMode.HYBRID:
            weight["meaning"] = ranking.MEANING
            total += ranking.MEANING
        for each in ranked(question, pool, mode).values():
            explained = sum(weight[part] * share for part, share in each.parts.items()) / total
            assert each.score == pytest.approx(min(1.0, max(0.0, explained)))

    @pytest.mark.parametrize("mode", SearchMode)
    def test_of_nothing_nothing_is_ranked(self, mode: SearchMode) -> None:
        statistics = TermStatistics(documents=0, average_length=1.0, frequencies={})
        assert ranking.rank(questions.parse_question("lantern", NOW), [], statistics, mode) == []


class TestTies:
    @pytest.mark.parametrize("mode", SearchMode)
    def test_of_equals_the_newer_comes_first(self, mode: SearchMode) -> None:
        pool = apart(*(turn("the lantern", BEGIN + n * DAY, name=f"{n}") for n in (1, 3, 0, 2)))
        question = questions.parse_question("lantern", NOW)
        found = ranking.rank(question, pool, counted(pool, question), mode)
        assert [pool[each.place].document.id for each in found] == ["3", "2", "1", "0"]

    def test_of_the_same_moment_the_order_is_that_of_kind_and_id(self) -> None:
        pool = apart(
            turn("the lantern", name="b"),
            turn("the lantern", name="a", kind=DocumentKind.GRIP),
            turn("the lantern", name="a"),
        )
        question = questions.parse_question("lantern", NOW)
        found = ranking.rank(question, pool, counted(pool, question), SearchMode.BM25)
        assert [pool[each.place].document.key for each in found] == ["event:a", "event:b", "grip:a"]


class TestLongTexts:
    """Work is counted in characters: those that a search passes over, and those that are copied."""

    @pytest.mark.parametrize(
        "line",
        [
            "path/to/harbour/of/berths,",  # not a blank in it
            "harbour",
            "harbour.",
            "harbour, and more of it ",
            "Hafen\u00fcberf\u00fclle/harbour\u2026",
        ],
    )
    def test_twice_the_text_is_twice_the_work(self, line: str) -> None:
        once, twice = (work(line * count, "harbour berths") for count in (2_000, 4_000))
        assert twice <= 2.2 * once

    @pytest.mark.parametrize("line", ["harbour ", "harbour/", "Harbour\u2026"])
    def test_a_text_that_is_full_of_a_word_is_judged_by_a_sample(self, line: str) -> None:
        text = line * 100_000
        found = Counted(text)
        ranked("harbour", apart(turn(found)))
        assert found.tally.copied <= ranking.MOST_WORDS * 2 * len(line)

    def test_a_sample_counts_about_as_much_as_all_of_it(self) -> None:
        often = "harbour and much else besides " * 100_000
        seldom = "harbour and much else besides " * 50_000 + "and else besides " * 90_000
        found = ranked("harbour", apart(turn(often), turn(seldom, BEGIN + 1)))
        assert 0.9 < found[seldom].words / found[often].words < 1.0

    @pytest.mark.parametrize("filling", ["berth ", "berth/", "bert\u2026", "\ud55c\uad6d "])
    def test_a_word_at_the_end_of_a_long_text_counts(self, filling: str) -> None:
        text = filling * 100_000 + "/kumquat"
        assert ranked("kumquat berth", apart(turn(text)))[text].words > 0

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("readFile", "it calls/readFile(path)/twice"),
            ("file", "it calls/readFile(path)/twice"),
            ("cafe", "Caf\u00e9\u2026 at the harbour"),
            ("\ud55c\uad6d", "\ud55c\uad6d\uc5b4"),
        ],
    )
    def test_counts_words_in_a_long_text_as_in_a_short_one(self, word: str, text: str) -> None:
        long = f"{'and so on, ' * 10_000}{text}\u2026"
        for each in (text, long):
            assert ranked(word, apart(turn(each)))[each].words > 0, each[-40:]


class Tally:
    passed = 0
    copied = 0


class Counted(str):
    """A text that counts how much of it is looked at."""

    tally: Tally

    def __new__(cls, text: str, tally: Tally | None = None) -> Self:
        made = super().__new__(cls, text)
        made.tally = tally or Tally()
        return made

    def lower(self) -> "Counted":
        return Counted(super().lower(), self.tally)

    def translate(self, table: object, /) -> "Counted":
        return Counted(super().translate(table), self.tally)  # type: ignore[arg-type]

    def find(self, sub: str, start: int = 0, end: int | None = None, /) -> int:  # type: ignore[override]
        found = super().find(sub, start, end)
        self.tally.passed += (found if found >= 0 else len(self)) - start
        return found

    def rfind(self, sub: str, start: int = 0, end: int | None = None, /) -> int:  # type: ignore[override]
        found = super().rfind(sub, start, end)
        self.tally.passed += (len(self) if end is None else end) - max(found, start)
        return found

    def __getitem__(self, place: "int | slice", /) -> str:  # type: ignore[override]
        part = super().__getitem__(place)
        self.tally.copied += len(part)
        return part


def work(text: str, question: str) -> int:
    found = Counted(text)
    ranked(question, apart(turn(found)))
    return found.tally.passed + found.tally.copied
