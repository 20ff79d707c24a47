"""Alignment: which words support a bullet, and which bullets have no support."""

from dataclasses import replace

import pytest

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import alignment, summaries
from agent_memory.kernel.ids import EventId
from tests.unit.toc.test_extracting import ASSISTANT, QUEUE, TOOL, USER, talk


def excerpts(bullet: str, quote: str = "") -> list[str]:
    return [one.excerpt for one in alignment.read(QUEUE).support(bullet, quote)]


class TestQuotes:
    @pytest.mark.parametrize(
        "quote",
        [
            "let's go with SKIP LOCKED",
            "LET'S GO WITH SKIP LOCKED",
            "let's  go\nwith SKIP LOCKED",
            ' "let\'s go with SKIP LOCKED." ',
            "\u201clet's go with SKIP LOCKED\u201d",
        ],
    )
    def test_a_quote_is_found_despite_surrounding_punctuation(self, quote: str) -> None:
        assert excerpts("SKIP LOCKED it is", quote) == ["let's go with SKIP LOCKED"]

    def test_it_tells_event_and_time(self) -> None:
        (one,) = alignment.read(QUEUE).support("SKIP LOCKED", "let's go with SKIP LOCKED")
        assert (one.event_id, one.at_ms) == (QUEUE[6].event_id, QUEUE[6].at_ms)

    def test_of_two_places_the_first_counts(self) -> None:
        said = talk((USER, "Ship the blue crate."), (ASSISTANT, "Ship the blue crate."))
        (one,) = alignment.read(said).support("The crate is shipped", "Ship the blue crate")
        assert one.event_id == said[0].event_id

    def test_its_line_breaks_are_those_of_the_message(self) -> None:
        said = talk((USER, "Ship the\n  blue crate."))
        (one,) = alignment.read(said).support("The crate is shipped", "ship the blue crate")
        assert one.excerpt == "Ship the\n  blue crate"

    def test_a_quote_about_something_else_is_no_support(self) -> None:
        assert excerpts("The moon is made of cheese", "Keep the batch size at 500 rows.") == []

    @pytest.mark.parametrize("quote", ["", "the", "500", "...", "nobody ever said this of SKIP"])
    def test_without_a_usable_one_sentences_are_compared(self, quote: str) -> None:
        assert excerpts("The batch size stays at 500 rows", quote) == [
            "Keep the batch size at 500 rows."
        ]

    def test_a_long_one_is_cut_after_a_word(self) -> None:
        said = talk((USER, "violet harbour " * 100))
        (one,) = alignment.read(said).support("violet harbour", "violet harbour " * 50)
        assert len(one.excerpt) <= alignment.MAX_EXCERPT
        assert one.excerpt.endswith(("violet", "harbour"))

    def test_signs_of_patterns_are_letters_like_others(self) -> None:
        said = talk((USER, "Replace (a|b)* by [ab]+ in scanner.py"))
        (one,) = alignment.read(said).support("scanner.py changed", "(a|b)* by [ab]+ in scanner.py")
        assert one.excerpt == "a|b)* by [ab]+ in scanner.py"


class TestSentences:
    @pytest.mark.parametrize(
        ("bullet", "sentence"),
        [
            (
                "The team chose SKIP LOCKED over a table lock",
                "A table lock would stall every reader, so I would use SKIP LOCKED instead.",
            ),
            ("User wants batches of 500 rows", "Keep the batch size at 500 rows."),
            (
                "A fixture that held its transaction open caused the lock timeout",
                QUEUE[8].text,
            ),
        ],
    )
    def test_the_one_that_holds_most_of_the_words(self, bullet: str, sentence: str) -> None:
        assert excerpts(bullet)[0] == sentence

    def test_a_bullet_of_two_sentences_rests_on_both(self) -> None:
        found = excerpts("SKIP LOCKED claims batches since a table lock stalls readers")
        assert len(found) == 2

    @pytest.mark.parametrize(
        "bullet",
        [
            "",
            "...",
            "The user asked",
            "The importer was rewritten in Rust",
            "Deployment to production is planned for Friday",
            "Penguins migrated to Kubernetes",
            "The importer moved to Rust",
        ],
    )
    def test_words_that_were_not_said_have_no_support(self, bullet: str) -> None:
        assert excerpts(bullet) == []

    def test_a_name_alone_is_no_support(self) -> None:
        said = talk((USER, "I moved to Lisbon."), (USER, "Lovely!"), speakers=("Ada", "Bob"))
        conversation = alignment.read(said)
        assert conversation.support("Ada bought a Ferrari") == ()
        assert conversation.support("Ada and Bob talked") == ()

    def test_of_equal_sentences_that_of_the_one_it_names(self) -> None:
        said = talk(
            (USER, "Lisbon was lovely."), (USER, "Lisbon was lovely."), speakers=("Ada", "Bob")
        )
        (one,) = alignment.read(said).support("Bob found Lisbon lovely")
        assert one.event_id == said[1].event_id

    def test_errors_in_a_tools_output_count(self) -> None:
        said = talk((TOOL, "x = 1\n" * 99 + "sqlite3.OperationalError: database is locked\n"))
        (one,) = alignment.read(said).support("SQLite failed: the database is locked")
        assert one.excerpt == "sqlite3.OperationalError: database is locked"

    def test_text_without_blanks_is_compared_too(self) -> None:
        said = talk((USER, "我们决定使用数据库来保存所有会话的记录。今天天气很好所以去公园散步。"))
        (one,) = alignment.read(said).support("决定使用数据库")
        assert one.excerpt == "我们决定使用数据库来保存所有会话的记录。"


def test_session_markers_and_blank_texts_are_filtered() -> None:
    start = replace(QUEUE[0], type=EventType.SESSION_START, event_id=EventId("start"))
    end = replace(start, type=EventType.SESSION_END)
    blank = replace(QUEUE[0], text=" \n\t")
    assert summaries.filter_spoken([start, QUEUE[1], blank, end]) == (QUEUE[1],)
    assert alignment.read([start, end]).support("The nightly import loses rows") == ()


def test_every_role_may_support() -> None:
    for role in EventRole:
        said = [replace(QUEUE[0], role=role)]
        assert alignment.read(said).support("The nightly import loses rows")
