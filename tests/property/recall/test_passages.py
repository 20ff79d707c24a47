"""Passages of any text: valid offsets, matching words, and a limit of size."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.recall.model.passages import find_passage
from agent_memory.kernel.text import analysis

words = st.sampled_from(
    [
        "lantern",
        "Lanterns",
        "parseHeader",
        "café",
        "東京都に行く",
        "\U0001f600",
        "e\u0301",
        "x" * 90,
    ]
)
ends = st.sampled_from([" ", ". ", "\n", "\n\n", "! ", "。", "_", ",", "", "}{", "?\n- "])
texts = st.one_of(
    st.text(max_size=2_000),
    st.lists(st.tuples(words, ends), max_size=300).map(
        lambda pairs: "".join(word + end for word, end in pairs)
    ),
)
weights = st.dictionaries(
    st.sampled_from(["lantern", "header", "cafe", "東京", "x", "zebra"]), st.floats(0.0, 10.0)
)
focuses = st.none() | st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)).map(
    lambda ends: (min(ends), max(ends))
)


@given(texts, weights, focuses, st.integers(1, 600))
def test_a_passage_is_a_part_of_the_text_with_marks_inside(
    text: str, terms: dict[str, float], focus: tuple[int, int] | None, most: int
) -> None:
    passage = find_passage(text, terms, focus=focus, most=most)
    assert len(passage.text) <= most
    assert text[passage.start : passage.end] == passage.text == passage.text.strip()
    last = 0
    for start, end in passage.marks:
        assert last <= start < end <= len(passage.text)
        assert not terms.keys().isdisjoint(analysis.extract_terms(passage.text[start:end]))
        last = end


@given(texts, st.integers(1, 5))
def test_a_very_long_text_is_no_exception(text: str, times: int) -> None:
    text = (text or "lantern ") * (times * 20_000 // max(1, len(text)))
    passage = find_passage(text, {"lantern": 3.0, "cafe": 1.0})
    assert text[passage.start : passage.end] == passage.text


@given(texts, weights)
def test_a_term_of_the_text_is_in_the_passage(text: str, terms: dict[str, float]) -> None:
    terms = {term: weight + 1.0 for term, weight in terms.items()}
    found = not terms.keys().isdisjoint(analysis.extract_terms(text))
    assert bool(find_passage(text, terms).marks) == found
