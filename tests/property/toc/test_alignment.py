"""Properties of alignment, for any bullet and any conversation."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.toc.model import alignment
from agent_memory.features.toc.model.summaries import Utterance
from agent_memory.kernel.text import phrases
from tests.property.toc.test_extracting import conversations, texts


@given(conversations, texts, texts)
def test_every_excerpt_stands_verbatim_in_its_event(
    said: list[Utterance], bullet: str, quote: str
) -> None:
    by_id = {one.event_id: one for one in said}
    found = alignment.read(said).support(bullet, quote)
    assert len(found) <= alignment.MAX_SUPPORT
    for support in found:
        assert support.excerpt.strip()
        assert len(support.excerpt) <= alignment.MAX_EXCERPT
        assert support.excerpt in by_id[support.event_id].text
        assert support.at_ms == by_id[support.event_id].at_ms


@given(conversations, st.data())
def test_any_verbatim_quote_is_found(said: list[Utterance], data: st.DataObject) -> None:
    conversation = alignment.read(said)
    if not conversation.spoken:
        return
    text = data.draw(st.sampled_from(conversation.spoken)).text
    start = data.draw(st.integers(0, len(text)))
    quote = text[start : data.draw(st.integers(start, len(text)))]
    said_of_it = phrases.split_words(quote).stems.keys() - conversation.speakers
    # Shorter quotes occur anywhere, and reporting words like "the user asked" support nothing.
    if len("".join(quote.split())) > 20 and "SQLite" in quote and said_of_it:
        (found,) = conversation.support(quote, quote)
        assert found.excerpt[:5] in quote


@given(conversations, st.lists(st.sampled_from(["zeppelin", "marmalade", "quagga"]), min_size=1))
def test_words_that_were_never_said_have_no_support(
    said: list[Utterance], words: list[str]
) -> None:
    conversation = alignment.read(said)
    bullet = " ".join(words)
    heard = {stem for one in conversation.sentences for stem in one.stems}
    if not heard & phrases.split_words(bullet).stems.keys():
        assert conversation.support(bullet) == ()


@given(conversations, texts, texts)
def test_the_same_question_has_the_same_answer(
    said: list[Utterance], bullet: str, quote: str
) -> None:
    first, second = alignment.read(said), alignment.read(list(said))
    assert first.support(bullet, quote) == second.support(bullet, quote)


@given(conversations, conversations, texts)
def test_a_longer_conversation_keeps_the_support(
    said: list[Utterance], more: list[Utterance], bullet: str
) -> None:
    """Except if a speaker who is named in the bullet joins in: then the name counts no more."""
    quiet = [one for one in more if one.speaker in {each.speaker for each in said}]
    if alignment.read(said).support(bullet):
        assert alignment.read([*said, *quiet]).support(bullet)
