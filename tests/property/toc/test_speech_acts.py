"""Cues: a pattern is searched only in texts with one of its words, and none is missed by that."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.toc.model import speech_acts

CUES = speech_acts._CUES  # noqa: SLF001 - the list of all cues
WORDS = sorted({word for cue in CUES for word in re.findall(r"[A-Za-z]+", cue.pattern.pattern)})
texts = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(["12", "3 of 4", "0", "n't", "'ll", "'s", ",", "."]),
    max_size=8,
).map(" ".join)


@given(texts)
def test_every_text_that_a_cue_matches_has_one_of_its_words(text: str) -> None:
    bits = speech_acts._read_bits(speech_acts._split(text))  # noqa: SLF001
    for cue in CUES:
        if cue.pattern.search(text):
            assert cue.may_be_in(bits), (text, cue.pattern.pattern)
