"""The terms of a text: which words count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.kernel.text import analysis


class TestWords:
    def test_terms_stand_in_the_order_of_the_text(self) -> None:
        assert analysis.extract_terms("red, green and blue") == ["red", "green", "and", "blue"]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("dog", "Dogs"),
            ("party", "PARTIES"),
            ("city", "cities"),
            ("box", "boxes"),
            ("walked", "walking"),
            ("stopped", "stop"),
        ],
    )
    def test_the_forms_of_a_word_are_one_term(self, one: str, other: str) -> None:
        assert analysis.extract_terms(one) == analysis.extract_terms(other)

    @pytest.mark.parametrize(
        ("accented", "plain"), [("café", "cafe"), ("naïve", "naive"), ("Ångström", "angstrom")]
    )
    def test_accents_do_not_matter(self, accented: str, plain: str) -> None:
        assert analysis.extract_terms(accented) == analysis.extract_terms(plain)

    def test_a_text_without_words_has_no_terms(self) -> None:
        assert analysis.extract_terms("") == []
        assert analysis.extract_terms(" \n\t?!... --") == []

    def test_a_word_that_is_too_long_is_dropped(self) -> None:
        assert analysis.extract_terms("x" * 64) == ["x" * 64]
        assert analysis.extract_terms(f"before {'x' * 65} after") == analysis.extract_terms(
            "before after"
        )


class TestIdentifiers:
    @pytest.mark.parametrize("identifier", ["parseHttpHeader", "ParseHTTPHeader"])
    def test_they_are_there_whole_and_in_their_parts(self, identifier: str) -> None:
        found = analysis.extract_terms(identifier)
        assert found[:1] == analysis.extract_terms(identifier.lower())
        assert found[1:] == analysis.extract_terms("parse http header")

    def test_underscores_and_dots_and_slashes_part_words(self) -> None:
        assert analysis.extract_terms("src/outbox_reader.py") == analysis.extract_terms(
            "src outbox reader py"
        )

    def test_a_plain_word_gives_one_term(self) -> None:
        for word in ("lantern", "LANTERN", "Lantern", "2026"):
            assert len(analysis.extract_terms(word)) == 1


class TestTextWithoutBlanks:
    def test_each_two_characters_are_a_term(self) -> None:
        assert analysis.extract_terms("東京都") == ["東京", "京都"]

    def test_one_character_is_one_term(self) -> None:
        assert analysis.extract_terms("猫") == ["猫"]

    @pytest.mark.parametrize("script", ["東京タワー", "서울타워", "กรุงเทพ"])
    def test_a_query_matches_inside_a_longer_text(self, script: str) -> None:
        said = set(analysis.extract_terms(f"we saw {script}, twice"))
        assert set(analysis.extract_terms(script)) <= said


class TestMemory:
    def test_no_more_words_are_remembered_than_a_limit(self) -> None:
        known, most = vars(analysis)["_known"], vars(analysis)["_REMEMBERED"]
        for start in range(0, most + 5_000, 5_000):
            analysis.extract_terms(" ".join(map(str, range(start, start + 5_000))))
            assert len(known) <= most

    @given(st.text(max_size=60))
    def test_cached_terms_equal_fresh_ones(self, text: str) -> None:
        first = analysis.extract_terms(text)
        assert analysis.extract_terms(text) == first
        vars(analysis)["_known"].clear()
        assert analysis.extract_terms(text) == first


class TestLength:
    @given(st.lists(st.sampled_from(["a", "word", "东京"]), min_size=1))
    def test_words_between_single_blanks_are_counted(self, words: list[str]) -> None:
        assert analysis.estimate_length(" ".join(words)) == len(words)
        assert analysis.estimate_length("\n".join(words)) == len(words)


class TestPlaces:
    @given(st.text(max_size=300), st.text(max_size=20))
    def test_terms_are_found_where_they_stand(self, text: str, wanted: str) -> None:
        terms = set(analysis.extract_terms(wanted)) | set(analysis.extract_terms(text)[:3])
        found = analysis.find_terms(text, terms)
        assert {match.term for match in found} == terms & set(analysis.extract_terms(text))
        for match in found:
            assert match.term in analysis.extract_terms(text[match.start : match.end])

    def test_only_the_given_part_is_read(self) -> None:
        assert [each.start for each in analysis.find_terms("red red red", {"red"}, 1, 8)] == [4]
