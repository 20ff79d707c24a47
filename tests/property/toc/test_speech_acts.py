"""Cues: a pattern is searched only in texts with one of its literals, which misses none."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.toc.model.act_cues import HEDGE, MENTIONS, PHRASES
from agent_memory.kernel.text.cues import Cue

CUES = [HEDGE, *MENTIONS.values(), *(phrase.cue for phrase in PHRASES)]
WORDS = sorted({word for cue in CUES for word in re.findall(r"[A-Za-z]+", cue.source)})
texts = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(["12", "3 of 4", "0", "n't", "'ll", "'s", ",", "."]),
    max_size=8,
).map(" ".join)
matching = st.sampled_from(CUES).flatmap(
    lambda cue: st.tuples(st.just(cue), st.from_regex(cue.pattern))
)


@given(texts)
def test_every_text_that_a_cue_matches_has_one_of_its_literals(text: str) -> None:
    for cue in CUES:
        assert cue.is_in(text, text.lower()) == bool(cue.pattern.search(text)), cue.source


@given(matching)
def test_so_has_a_text_that_is_made_from_its_pattern(created: tuple[Cue, str]) -> None:
    cue, text = created
    assert cue.is_in(text, text.lower()), cue.literals
