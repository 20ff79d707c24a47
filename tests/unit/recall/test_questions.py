"""What a question asks for: its words, the speakers it names, and its spelling."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchMode, SearchScope
from agent_memory.features.recall.model import questions
from agent_memory.features.recall.model.questions import ParsedQuestion
from agent_memory.kernel.text import analysis
from tests.ranking_pools import speakers
from tests.recall_parts import NOW, RecallHarness, list_texts, make_event, open_recall

EVENTS = SearchScope(kinds=frozenset({DocumentKind.EVENT}))


class TestWords:
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

    @pytest.mark.parametrize(
        ("text", "first_person"),
        [
            ("Where did I put it?", True),
            ("my lantern", True),
            ("what did you tell ME", True),
            ("I'm looking for it", True),
            ("Where did we put it?", False),
            ("the mystery of it", False),
        ],
    )
    def test_who_asks_about_themselves(self, text: str, first_person: bool) -> None:
        assert questions.parse_question(text, NOW).first_person is first_person


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


class Vocabulary:
    """Counts terms, and keeps which were looked up."""

    def __init__(self, **documents: int) -> None:
        self.known = {
            term: count
            for word, count in documents.items()
            for term in analysis.extract_terms(word)
        }
        self.lookups: list[list[str]] = []

    def count(self, terms: list[str]) -> Mapping[str, int]:
        self.lookups.append(terms)
        return {term: self.known.get(term, 0) for term in terms}

    def correct(self, text: str) -> ParsedQuestion:
        question = questions.parse_question(text, NOW)
        return questions.correct_spelling(question, self.known, self.count)


class TestSpelling:
    @pytest.mark.parametrize("wrong", ["lanten", "lanternn", "lantren", "lamtern", "alntern"])
    def test_one_letter_is_corrected(self, wrong: str) -> None:
        found = Vocabulary(lantern=3).correct(f"Where is the {wrong}?")
        assert found.terms == tuple(analysis.extract_terms("lantern"))
        assert found.meaning == "Where is the lantern?"

    def test_two_letters_are_not(self) -> None:
        words = Vocabulary(lantern=3)
        assert words.correct("the lamtren") == questions.parse_question("the lamtren", NOW)

    def test_a_word_that_occurs_is_never_changed(self) -> None:
        words = Vocabulary(lantern=900, lanterne=1)
        assert words.correct("the lanterne").meaning == "the lanterne"
        assert words.lookups == []

    def test_another_form_of_a_known_word_is_known(self) -> None:
        words = Vocabulary(city=3, cite=900)
        assert words.correct("the cities").meaning == "the cities"
        assert words.lookups == []

    def test_the_word_that_more_documents_have_is_likelier(self) -> None:
        assert Vocabulary(lantern=2, lantera=5).correct("lanterx").meaning == "lantera"
        assert Vocabulary(lantern=5, lantera=2).correct("lanterx").meaning == "lantern"

    def test_a_form_of_a_known_word_counts_too(self) -> None:
        found = Vocabulary(migration=4).correct("the migratoins")
        assert found.terms == tuple(analysis.extract_terms("migrations"))
        assert found.meaning == "the migrations"

    def test_all_words_are_looked_up_at_once(self) -> None:
        words = Vocabulary(lantern=3, attic=1)
        assert words.correct("the lanten in the atic").meaning == "the lantern in the attic"
        assert len(words.lookups) == 1

    def test_a_word_of_no_known_spelling_stays(self) -> None:
        question = questions.parse_question("the xyzzyx", NOW)
        words = Vocabulary(lantern=3)
        assert questions.correct_spelling(question, words.known, words.count) is question

    def test_every_occurrence_is_corrected_and_nothing_else(self) -> None:
        found = Vocabulary(lantern=3, attic=1).correct("Lanten, lanten in the attic: lantens?")
        assert found.meaning == "Lantern, lantern in the attic: lanterns?"
        assert found.terms == tuple(analysis.extract_terms("lantern attic"))

    def test_a_capital_stays_so_that_a_name_stays_a_name(self) -> None:
        found = Vocabulary(caroline=3, pottery=1).correct("What did Carolien say about pottery?")
        assert found.meaning == "What did Caroline say about pottery?"
        assert questions.resolve_speakers(found, speakers("Caroline")).names == speakers("Caroline")

    @pytest.mark.parametrize("text", ["the caz", "a box"])
    def test_a_short_word_stays(self, text: str) -> None:
        words = Vocabulary(cat=9, fox=9, cats=9)
        assert words.correct(text).meaning == text
        assert words.lookups == []

    def test_a_very_long_word_stays(self) -> None:
        word = "x" * questions.LONGEST_CORRECTED
        words = Vocabulary(**{word: 3})
        assert words.correct(word + "y").meaning == word + "y"
        assert words.correct(word[:-1] + "y").meaning == word

    @pytest.mark.parametrize(
        "text",
        ["lantërn", "фонарь", "東京都庁", "lantern7", "LANTREN", "lanternLigth", "0x1f2e3d"],
    )
    def test_only_plain_words_are_corrected(self, text: str) -> None:
        """Accents, other scripts, digits, constants and camelCase may be meant as they are."""
        words = Vocabulary(lanterx=9, lanternlight=9)
        assert words.correct(text).meaning == text
        assert words.lookups == []

    def test_a_part_of_a_snake_case_identifier_is_corrected(self) -> None:
        found = Vocabulary(close=9, review=9).correct("where is close_reveiw called?")
        assert "close_review" in found.meaning
        assert set(analysis.extract_terms("close review")) <= set(found.terms)

    def test_words_that_only_ask_are_not_looked_up(self) -> None:
        words = Vocabulary(lantern=3)
        words.correct("Where should there have been a lantern?")
        assert words.lookups == []

    def test_few_words_are_looked_up_each_once(self) -> None:
        words = Vocabulary(lantern=3)
        words.correct(" ".join(f"{a}{b}qqqq " * 2 for a in "abc" for b in "xyz"))
        (terms,) = words.lookups
        assert len(terms) == len(set(terms)) < questions.MOST_CORRECTED * 60 * 8


class TestSpellingOfWhatIsStored:
    @pytest.fixture
    def parts(self, tmp_path: Path) -> Iterator[RecallHarness]:
        with open_recall(tmp_path) as created:
            yield created

    @pytest.mark.parametrize("wrong", ["migratoin", "migrtion", "migrattion", "Migrasion"])
    def test_a_misspelled_word_is_found_before_and_after_indexing(
        self, parts: RecallHarness, wrong: str
    ) -> None:
        parts.keep_up()
        parts.keep(
            make_event("The migration drops a column.", NOW - 9, session="a", role="assistant"),
            make_event("A column of marble.", NOW - 8, session="b", role="assistant"),
        )
        for _ in range(2):
            answer = parts.ask(f"which {wrong}?", EVENTS, mode=SearchMode.BM25)
            assert list_texts(answer) == ["The migration drops a column."]
            (start, end), *_ = answer.hits[0].passage.marks if answer.hits[0].passage else ()
            assert "The migration drops a column."[start:end] == "migration"
            parts.keep_up()

    def test_a_name_that_nobody_says_is_not_misspelled(self, parts: RecallHarness) -> None:
        parts.take_in(
            make_event("I like pottery.", NOW - 9, session="a", speaker="Karen"),
            make_event("I like pottery, Karin.", NOW - 8, session="b", speaker="Ada"),
        )
        best = parts.ask("What does Karen like about pottery?", EVENTS).hits[0]
        assert best.document.speaker == "Karen"

    def test_a_misspelled_name_is_a_name(self, parts: RecallHarness) -> None:
        parts.take_in(
            make_event("I like pottery.", NOW - 9, session="a", speaker="Caroline"),
            make_event("I love pottery. Ask Caroline.", NOW - 8, session="b", speaker="Ada"),
        )
        best = parts.ask("What does Carolien like about pottery?", EVENTS).hits[0]
        assert best.document.speaker == "Caroline"
        assert best.parts["speaker"] > 0
