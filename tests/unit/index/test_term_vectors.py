"""Term vectors: what is counted, what is kept of a text, and how it is stored."""

import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model import documents, term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.term_vectors import TermVector
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis

words = st.sampled_from(["go", "gone", "CloseReview", "ü", "日本語"])
texts = st.text(max_size=300) | st.lists(words).map(" ".join)
names = st.text(max_size=20)


def document(text: str, **fields: object) -> Document:
    return Document(
        kind=DocumentKind.EVENT,
        id="e1",
        owner=Owner("event:e1"),
        at_ms=Millis(5),
        text=text,
        **fields,  # type: ignore[arg-type]
    )


def build(text: str, **fields: object) -> TermVector:
    return term_vectors.build(document(text, **fields))


def counted(vectors: Sequence[TermVector], terms: Sequence[str]) -> list[list[float]]:
    found: list[list[float]] = term_vectors.count(vectors, terms).tolist()
    return found


def fields_of(vector: TermVector) -> tuple[object, ...]:
    return (vector.hashes.tolist(), vector.counts.tolist(), *vector[2:])


class TestBuilding:
    def test_title_text_and_tags_are_counted(self) -> None:
        vector = build("RocksDB is fast", title="Why RocksDB", tags=frozenset({"storage"}))
        assert counted([vector], analysis.extract_terms("RocksDB storage why sqlite")) == [
            [2, 2, 2, 1, 1, 0]  # the name, its two parts, and the others
        ]

    def test_the_terms_are_sorted_so_that_nothing_tells_their_order(self) -> None:
        one, other = build("alpha beta gamma alpha"), build("gamma alpha alpha beta")
        assert one.hashes.tolist() == sorted(one.hashes.tolist())
        assert term_vectors.encode(one)[20:] == term_vectors.encode(other)[20:]

    def test_counts_end_at_255(self) -> None:
        assert counted([build("again " * 1_000)], ["again"]) == [[255]]

    def test_a_rare_word_of_a_long_text_is_counted(self) -> None:
        vector = build("padding words " * 60_000 + "marigold " + "and more " * 10_000)
        assert counted([vector], ["marigold", "abacus"]) == [[1, 0]]

    @pytest.mark.parametrize("filling", ["berth/", "bert\u2026", "\ud55c\uad6d "])
    def test_a_word_at_the_end_of_a_text_without_blanks_is_counted(self, filling: str) -> None:
        assert counted([build(filling * 100_000 + "/kumquat")], ["kumquat"]) == [[1]]

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("readFile", "it calls/readFile(path)/twice"),
            ("file", "it calls/readFile(path)/twice"),
            ("cafe", "Caf\u00e9\u2026 at the harbour"),
            ("\ud55c\uad6d", "\ud55c\uad6d\uc5b4"),
        ],
    )
    def test_words_of_a_long_text_are_counted_as_in_a_short_one(self, word: str, text: str) -> None:
        terms = analysis.extract_terms(word)
        short, long = counted([build(text), build(f"{'and so on, ' * 10_000}{text}\u2026")], terms)
        assert short == long
        assert all(short)

    def test_of_very_many_terms_the_most_frequent_stay(self) -> None:
        many = " ".join(f"x{number}" for number in range(2 * term_vectors.MOST_TERMS))
        vector = build(f"{many} often often")
        assert len(vector.hashes) == len(vector.counts) == term_vectors.MOST_TERMS
        assert counted([vector], ["often"]) == [[2]]

    @pytest.mark.parametrize(
        ("text", "asks", "ends_asking"),
        [
            ("Which one?", True, True),
            ("Which one? \n", True, True),
            ("Which one? The first, I should think.", True, False),
            ("The first.", False, False),
            ("Which one?" + " " * 30, True, False),
            ("", False, False),
        ],
    )
    def test_questions_are_marked(self, text: str, asks: bool, ends_asking: bool) -> None:
        vector = build(text)
        assert (vector.asks, vector.ends_asking) == (asks, ends_asking)

    def test_the_speaker_is_the_name_or_else_the_role(self) -> None:
        named = build("x", speaker="Ada King", role="user")
        assert named.speaker == tuple(map(zlib.crc32, (b"ada", b"king")))
        assert build("x", role="assistant").speaker == tuple(
            map(term_vectors.hash_term, analysis.extract_terms("assistant"))
        )
        assert build("x").speaker == ()

    @pytest.mark.parametrize("role", ["", "user", "assistant", "system", "tool"])
    def test_the_role_is_kept(self, role: str) -> None:
        assert term_vectors.decode(term_vectors.encode(build("x", role=role))).role == role

    def test_the_length_is_that_of_the_whole(self) -> None:
        vector = build("two words", title="a title", tags=frozenset({"tag"}))
        assert vector.words == analysis.estimate_length("a title\ntwo words\ntag") == 5


class TestDigest:
    SAID = "We took RocksDB, because its writes are fast."

    def test_case_blanks_and_punctuation_do_not_matter(self) -> None:
        again = "we took rocksdb -- because\nits WRITES are fast"
        assert build(self.SAID).digest == build(again, role="tool").digest != 0

    def test_other_words_have_another(self) -> None:
        assert build(self.SAID).digest != build(self.SAID.replace("fast", "slow")).digest

    def test_a_short_text_has_none(self) -> None:
        assert build("Yes, please do so.").digest == build("").digest == 0

    def test_only_the_beginning_of_a_long_text_counts(self) -> None:
        start = "long enough " * 200
        assert build(start + "one").digest == build(start + "two").digest != 0


class TestCounting:
    @given(st.lists(texts, max_size=6), st.lists(texts, max_size=4))
    def test_it_equals_counting_the_terms(self, said: list[str], asked: list[str]) -> None:
        terms = [term for text in asked for term in analysis.extract_terms(text)]
        terms += [term for text in said for term in analysis.extract_terms(text)[:3]]
        expected = [
            [Counter(analysis.extract_terms(text))[term] for term in terms] for text in said
        ]
        found = term_vectors.count([build(text) for text in said], terms)
        assert found.dtype == np.float32
        assert found.shape == (len(said), len(terms))
        assert found.tolist() == expected

    def test_a_term_that_is_asked_twice_is_counted_twice(self) -> None:
        assert counted([build("go go stay")], ["go", "stay", "go"]) == [[2, 1, 2]]


class TestStoring:
    @given(texts, names, st.sampled_from(["", "user", "tool"]), names)
    def test_a_vector_comes_back_as_it_was(
        self, text: str, speaker: str, role: str, title: str
    ) -> None:
        vector = build(text, speaker=speaker, role=role, title=title)
        again = term_vectors.decode(term_vectors.encode(vector))
        assert fields_of(again) == fields_of(vector)

    def test_the_arrays_are_not_copied(self) -> None:
        vector = term_vectors.decode(term_vectors.encode(build("some words")))
        assert not vector.hashes.flags.owndata
        assert not vector.counts.flags.owndata

    @given(st.binary(max_size=200))
    def test_any_bytes_are_refused_or_read(self, value: bytes) -> None:
        for each in (value, b"\x01" + value):
            with suppress(ValueError):
                term_vectors.count([term_vectors.decode(each)], ["go"])

    @given(texts, st.data())
    def test_a_cut_or_longer_value_is_refused(self, text: str, data: st.DataObject) -> None:
        value = term_vectors.encode(build(text))
        end = data.draw(st.integers(0, len(value) - 1))
        for each in (value[:end], value + b"\0"):
            with pytest.raises(ValueError, match="term vector"):
                term_vectors.decode(each)

    @given(texts, st.data())
    def test_a_flipped_bit_is_refused_or_read(self, text: str, data: st.DataObject) -> None:
        value = bytearray(term_vectors.encode(build(text)))
        value[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        with suppress(ValueError):
            term_vectors.count([term_vectors.decode(bytes(value))], ["go"])

    def test_another_format_is_refused(self) -> None:
        value = term_vectors.encode(build("go"))
        with pytest.raises(ValueError, match="another format"):
            term_vectors.decode(b"\x02" + value[1:])


def test_a_document_of_a_record_is_found_by_its_kind_and_id() -> None:
    for kind, owner in [
        (DocumentKind.EVENT, "event:x:1"),
        (DocumentKind.SEGMENT, "segment:x:1"),
        (DocumentKind.FACT, "fact:x:1"),
        (DocumentKind.GRIP, None),
        (DocumentKind.MEMORY, None),
    ]:
        assert documents.owner_of(kind, "x:1") == owner
