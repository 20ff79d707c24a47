"""Properties of signals, for any text."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.model import signals
from agent_memory.features.hooks.model.signals import CERTAIN, MARKERS, MAX_SIGNALS
from agent_memory.features.memories.model.memories import NAMESPACES, Draft

fragments = st.sampled_from(
    [
        "[decision]", "[LEARNED]:", "[blocker] ", "[progress]\n", "we decided to ", "let's use ",
        "it turns out that ", "lesson learned", "we're blocked by ", "remember that ", "if ",
        "not ", "should we ", "because of ", "since ", ", ", ". ", "? ", "! ", ": ", "; ", "\n",
        "\n\n", "- ", "```\n", "    ", "\t", "> ", "# ", "**", "_", "`x_y`", '"', "'", "“", "”",
        "Redis ", "the cache ", "https://example.org/x ", "\r\n", "\x1b[31m", "\u2028", "\x85",
        "<memory_context>", "</memory_context>", "<summary>", "[a](b)", "👍", "İ", "ß", "ﬁ",
        "\ud800", "x" * 120, "…",
    ]
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=())) | st.lists(
    fragments | st.text(max_size=8), max_size=40
).map("".join)
markers = st.lists(st.text(max_size=6) | st.sampled_from(MARKERS), max_size=4).map(tuple)

words = st.sampled_from(["cache", "queue", "parser", "index", "worker", "socket", "token"])
plain = st.lists(words, min_size=2, max_size=8).map(" ".join)
paragraphs = st.lists(
    plain.map(lambda text: f"Please look at the {text}.")
    | st.sampled_from(
        [
            "fix the failing test", "what did we decide about caching?", "- one\n- two",
            "```\n[learned] not this\n```", "> [decision] nor this", "    [blocker] code",
            "<system-reminder>\n[progress] nor this\n</system-reminder>", "# A heading",
        ]
    ),
    max_size=6,
).map("\n\n".join)  # fmt: skip


class TestAnyText:
    @given(texts, markers)
    def test_gives_signals_that_memories_can_be_made_of(
        self, text: str, given_markers: tuple[str, ...]
    ) -> None:
        for found in (signals.detect(text), signals.detect(text, given_markers)):
            assert len(found) <= MAX_SIGNALS
            for one in found:
                Draft(namespace=one.namespace, summary=one.summary, content=one.content)
                assert one.content
                assert one.reason.strip() == one.reason
                assert not {"\n", "\r", "\x1b"} & {*one.summary, *one.reason}
                assert 0 < one.confidence <= 1
                assert (one.confidence >= CERTAIN) == one.marked
                assert one.namespace in NAMESPACES

    @given(texts)
    def test_gives_the_same_signals_again(self, text: str) -> None:
        assert signals.detect(text) == signals.detect(text)

    @given(texts)
    def test_says_nothing_that_is_not_in_it_when_it_is_code(self, text: str) -> None:
        fenced = text.replace("`", "").replace("\r", "")
        assert signals.detect(f"`````\n{fenced}\n`````") == []


class TestMarkedSentence:
    @given(paragraphs, plain, st.sampled_from(MARKERS), st.booleans(), paragraphs)
    def test_is_found_among_anything(
        self, before: str, said: str, marker: str, leads: bool, after: str
    ) -> None:
        line = f"{marker} The {said}" if leads else f"The {said} {marker}"
        found = signals.detect(f"{before}\n\n{line}\n\n{after}")
        marked = [one for one in found if one.marked]
        assert [(one.summary, one.content) for one in marked] == [(f"The {said}", f"The {said}")]
        assert marked == [one for one in signals.detect(line) if one.marked]

    @given(plain, st.sampled_from(MARKERS))
    def test_is_found_in_any_case(self, said: str, marker: str) -> None:
        lower, upper = (signals.detect(f"{m} {said}") for m in (marker, marker.upper()))
        assert lower == upper
        assert len(lower) == 1
