"""The passage of a text that answers: where it begins and ends, and which words match."""

import pytest

from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Passage
from agent_memory.features.recall.model import passages
from agent_memory.features.recall.model.passages import MOST_CHARS, find_passage
from agent_memory.features.toc.model.toc import Bullet, GripId
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis

FILLER = "Nothing of interest is written in this sentence at all. "
ANSWER = "The lantern hangs from the northern mast."


def weigh(question: str) -> dict[str, float]:
    return dict.fromkeys(analysis.extract_terms(question), 3.0)


def marked(passage: Passage) -> list[str]:
    return [passage.text[start:end] for start, end in passage.marks]


class TestWindow:
    @pytest.mark.parametrize("before", [0, 1, 20, 1_000])
    @pytest.mark.parametrize("after", [20, 1_000])
    def test_it_is_where_the_terms_stand(self, before: int, after: int) -> None:
        text = before * FILLER + ANSWER + " " + after * FILLER
        passage = find_passage(text, weigh("lantern mast"))
        assert ANSWER in passage.text
        assert marked(passage) == ["lantern", "mast"]
        assert text[passage.start : passage.end] == passage.text

    def test_it_begins_and_ends_with_a_sentence(self) -> None:
        passage = find_passage(20 * FILLER + ANSWER + " " + 20 * FILLER, weigh("lantern"))
        assert passage.text.startswith(FILLER.strip())
        assert passage.text.endswith("at all.")
        assert len(passage.text) > MOST_CHARS - len(FILLER)

    def test_lines_end_a_sentence_too(self) -> None:
        lines = [f"- point {number} about the harbour" for number in range(60)]
        lines[40] = "- the lantern is lit at dusk"
        passage = find_passage("\n".join(lines), weigh("lantern"))
        assert set(passage.text.split("\n")) < set(lines)

    def test_terms_in_one_sentence_count_more_than_scattered_ones(self) -> None:
        scattered = "A lantern. " + FILLER + "A mast. " + FILLER
        near = 10 * FILLER + "The lantern of the mast. "
        passage = find_passage(scattered + 10 * FILLER + near + 10 * FILLER, weigh("lantern mast"))
        assert "The lantern of the mast." in passage.text

    def test_a_rare_term_counts_more_than_two_frequent_ones(self) -> None:
        text = "A ship at sea. " + 20 * FILLER + ANSWER + " " + 20 * FILLER
        weights = {"ship": 1.0, "sea": 1.0, "lantern": 5.0}
        assert ANSWER in find_passage(text, weights).text

    def test_a_common_word_counts_less_than_another_that_is_as_rare(self) -> None:
        text = "It takes long. " + 20 * FILLER + ANSWER + " " + 20 * FILLER
        assert ANSWER in find_passage(text, {"long": 4.0, "lantern": 3.0}).text

    def test_prose_comes_before_code(self) -> None:
        code = 'x = {"lantern": [1, 2], "mast": {}}; y = [lantern]\n'
        text = code + 20 * FILLER + "We took the lantern from the mast. " + 20 * FILLER
        assert "We took" in find_passage(text, weigh("lantern mast")).text

    def test_of_equals_the_first_is_taken(self) -> None:
        text = 20 * FILLER + ANSWER + " " + 20 * FILLER + ANSWER
        assert find_passage(text, weigh("lantern")).start < len(text) // 2

    def test_a_short_text_is_whole(self) -> None:
        passage = find_passage(f"\n {ANSWER}\n", weigh("mast lantern"))
        assert (passage.text, passage.start) == (ANSWER, 2)
        assert marked(passage) == ["lantern", "mast"]

    @pytest.mark.parametrize("weights", [{}, {"zebra": 5.0}])
    def test_without_a_match_it_is_the_beginning(self, weights: dict[str, float]) -> None:
        passage = find_passage(f"  {ANSWER} " + 50 * FILLER, weights)
        assert passage.start == 2
        assert passage.text.startswith(ANSWER)
        assert passage.marks == ()

    def test_of_nothing_it_is_nothing(self) -> None:
        assert find_passage("", weigh("lantern")) == Passage(text="")
        assert find_passage(" \n" * 1_000, weigh("lantern")).text == ""


class TestFocus:
    TEXT = 20 * FILLER + "A lantern is lit. " + 20 * FILLER + "A lantern is dark. " + 20 * FILLER

    def test_of_equal_passages_the_one_in_the_focus_is_taken(self) -> None:
        at = self.TEXT.index("A lantern is dark")
        passage = find_passage(self.TEXT, weigh("lantern"), focus=(at - 100, at + 100))
        assert "dark" in passage.text

    def test_a_better_match_outside_of_it_is_taken(self) -> None:
        at = self.TEXT.index("A lantern is dark")
        passage = find_passage(self.TEXT, weigh("lantern lit"), focus=(at - 100, at + 100))
        assert "A lantern is lit" in passage.text

    @pytest.mark.parametrize("weights", [{}, {"zebra": 5.0}])
    def test_without_a_match_it_is_the_passage(self, weights: dict[str, float]) -> None:
        at = self.TEXT.index("A lantern is dark")
        assert "dark" in find_passage(self.TEXT, weights, focus=(at, at + 100)).text


class TestLongLines:
    def test_one_is_cut_at_blanks(self) -> None:
        text = "word " * 1_000 + "lantern " + "word " * 1_000
        passage = find_passage(text, weigh("lantern"))
        assert set(passage.text.split()) == {"word", "lantern"}

    def test_one_without_blanks_is_cut_beside_words(self) -> None:
        text = '{"key":"value"},' * 300 + '{"lantern":true},' + '{"key":"value"},' * 300
        passage = find_passage(text, weigh("lantern"))
        assert marked(passage) == ["lantern"]
        assert len(passage.text) <= MOST_CHARS

    def test_one_long_word_is_cut_anywhere(self) -> None:
        assert 0 < len(find_passage("x" * 100_000, weigh("lantern")).text) <= MOST_CHARS


class TestMarks:
    @pytest.mark.parametrize(
        ("question", "text", "words"),
        [
            ("city", "Many CITIES, one city.", ["CITIES", "city"]),
            ("cafe", "Das Café \U0001f600 im café", ["Café", "café"]),
            ("header", "It fails in parseHeader.", ["parseHeader"]),
            ("parse header", "parseHeader", ["parseHeader"]),
            ("review", "close_review()", ["review"]),
            ("京都", "東京都に行く", ["京都"]),
            ("東京都", "東京都に行く", ["東京都"]),
        ],
    )
    def test_they_are_the_words_that_match(
        self, question: str, text: str, words: list[str]
    ) -> None:
        assert marked(find_passage(text, weigh(question))) == words


class TestMemory:
    def memory(self, title: str, content: str) -> Document:
        return Document(
            kind=DocumentKind.MEMORY,
            id="m",
            owner=Owner("m"),
            at_ms=Millis(0),
            title=title,
            text=content,
        )

    def test_content_that_adds_a_term_has_a_passage(self) -> None:
        memory = self.memory("Lights of the ship", 20 * FILLER + ANSWER)
        passage = passages.find_in_memory(memory, weigh("lantern ship mast"))
        assert passage is not None
        assert passage.text.endswith(ANSWER)

    @pytest.mark.parametrize("question", ["lantern mast", "mast", "zebra", ""])
    def test_content_that_adds_none_has_none(self, question: str) -> None:
        memory = self.memory("Lantern on the mast", ANSWER)
        assert passages.find_in_memory(memory, weigh(question)) is None


class TestBullets:
    BULLETS = tuple(
        Bullet(text=text, grip_ids=(GripId(f"grip:{number}"),), weight=1.0)
        for number, text in enumerate(("The lantern", "The lantern is lit", "The mast is wet"))
    )
    TEXT = "\n".join(("On board", *(bullet.text for bullet in BULLETS), "lantern mast"))

    @pytest.mark.parametrize(
        ("question", "number", "words"),
        [("lantern", 0, ["lantern"]), ("wet mast", 2, ["mast", "wet"]), ("zebra", 0, [])],
    )
    def test_the_best_is_found_with_its_place(
        self, question: str, number: int, words: list[str]
    ) -> None:
        bullet, passage = passages.find_bullet(self.TEXT, self.BULLETS, weigh(question))
        assert bullet == self.BULLETS[number]
        assert self.TEXT[passage.start : passage.end] == passage.text == bullet.text
        assert marked(passage) == words
