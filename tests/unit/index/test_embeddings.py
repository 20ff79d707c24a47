"""The parts of a document that are embedded."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model import embeddings
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.embeddings import MOST_PARTS, PART_WORDS
from agent_memory.kernel.ids import Millis

# Short, so that a document of all parts stays below the limit of characters.
words = st.lists(
    st.sampled_from(["a", "bc", "def", "北京"]), max_size=MOST_PARTS * PART_WORDS + 150
)
blanks = st.sampled_from([" ", "  ", "\n", "\n\n\t"])


def document(
    text: str, *, kind: DocumentKind = DocumentKind.EVENT, title: str = "", tool: str = ""
) -> Document:
    return Document(
        kind=kind, id="x", owner=Owner("x"), at_ms=Millis(0), text=text, title=title, tool=tool
    )


class TestParts:
    @given(words, blanks)
    def test_they_are_few_short_and_together_the_beginning_of_the_text(
        self, said: list[str], blank: str
    ) -> None:
        parts = embeddings.split_parts(document(blank.join(said)))
        assert len(parts) <= MOST_PARTS
        assert all(0 < len(part.split()) <= PART_WORDS for part in parts)
        assert " ".join(parts).split() == said[: MOST_PARTS * PART_WORDS]

    @given(words)
    def test_there_are_no_more_parts_than_the_length_needs(self, said: list[str]) -> None:
        parts = embeddings.split_parts(document(" ".join(said)))
        assert len(parts) == min(MOST_PARTS, -(-len(said) // PART_WORDS))

    @given(st.text(max_size=20_000))
    def test_any_text_gives_a_beginning_of_itself(self, text: str) -> None:
        parts = embeddings.split_parts(document(text))
        assert len(parts) <= MOST_PARTS
        assert " ".join(text.split()).startswith(" ".join(parts))
        assert bool(parts) == bool(text[:8_000].split())

    def test_a_text_of_a_few_words_is_one_part(self) -> None:
        assert embeddings.split_parts(document("The deploy  failed.\n")) == ["The deploy failed."]

    def test_an_empty_text_has_no_parts(self) -> None:
        assert embeddings.split_parts(document(" \n ")) == []

    @given(words)
    def test_of_tool_output_only_the_beginning_counts(self, said: list[str]) -> None:
        parts = embeddings.split_parts(document(" ".join(said), tool="Bash"))
        assert len(parts) <= 1
        assert " ".join(parts).split() == said[:PART_WORDS]

    def test_the_title_of_a_memory_belongs_to_it_but_that_of_other_things_does_not(self) -> None:
        memory = document("Use RocksDB.", kind=DocumentKind.MEMORY, title="Storage")
        assert embeddings.split_parts(memory) == ["Storage Use RocksDB."]
        grip = document("Use RocksDB.", kind=DocumentKind.GRIP, title="Storage")
        assert embeddings.split_parts(grip) == ["Use RocksDB."]


class TestPlaces:
    @given(
        words,
        blanks,
        st.sampled_from(["", "Bash"]),
        st.sampled_from([DocumentKind.EVENT, DocumentKind.MEMORY]),
    )
    def test_each_part_stands_in_its_range_of_the_text(
        self, said: list[str], blank: str, tool: str, kind: DocumentKind
    ) -> None:
        created = document(blank.join(said), tool=tool, kind=kind, title="of the title")
        title = created.title.split() if kind is DocumentKind.MEMORY else []
        for number, part in enumerate(embeddings.split_parts(created)):
            start, end = embeddings.locate_part(created, number)
            assert created.text[start:end].split() == part.split()[0 if number else len(title) :]

    @given(st.text(max_size=20_000), st.integers(0, 10))
    def test_any_number_gives_a_range_in_the_text(self, text: str, number: int) -> None:
        start, end = embeddings.locate_part(document(text), number)
        assert 0 <= start <= end <= len(text)
