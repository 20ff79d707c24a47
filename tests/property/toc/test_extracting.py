"""Properties of the extractive summarizer, for any text."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.summaries import ChildBullet, ChildSummary, Utterance
from agent_memory.kernel.ids import EventId, Millis
from agent_memory.kernel.text import sentences

fragments = st.sampled_from(
    [
        "the", "We decided", "SQLite", "scanner.py", ". ", "! ", "? ", ": ", ", ", "\n", "\n\n",
        "- ", "```\n", '  File "a.py", line 3', "...", "e.g. ", "0.9", "https://example.org/x ",
        "Error: ", "FAILED tests/a.py ", "**", "`x_y`", "👍", "我们。", "\t", "\r\n", "(", "] ",
        " because ", " 5 GB",
    ]
)  # fmt: skip
texts = st.text() | st.lists(fragments | st.text(max_size=8), max_size=40).map("".join)
utterances = st.builds(
    Utterance,
    event_id=st.uuids().map(str).map(EventId),
    at_ms=st.integers(0, 1000).map(Millis),
    type=st.sampled_from(EventType),
    role=st.sampled_from(EventRole),
    text=texts,
    speaker=st.sampled_from(["", "Ada", "Bob"]),
)
conversations = st.lists(utterances, max_size=12, unique_by=lambda one: one.event_id)
grips = st.sampled_from([f"g{n}" for n in range(20)])
children = st.builds(
    ChildSummary,
    title=texts,
    text=texts,
    bullets=st.lists(
        st.builds(
            ChildBullet,
            text=texts | st.sampled_from(["the fence is mended", "The fence is mended!"]),
            weight=st.floats(0.001, 10),
            grip_ids=st.lists(grips, max_size=3).map(tuple),
        ),
        max_size=6,
    ).map(tuple),
    keywords=st.lists(st.text(min_size=1, max_size=20), max_size=12).map(tuple),
)


class TestSummary:
    @given(conversations, conversations)
    def test_bullets_stand_verbatim_in_the_conversation(
        self, said: list[Utterance], before: list[Utterance]
    ) -> None:
        by_id = {one.event_id: one for one in said}
        for point in extracting.summarize(said, before).points:
            assert point.support
            for support in point.support:
                assert support.excerpt
                assert support.excerpt in by_id[support.event_id].text
                assert support.at_ms == by_id[support.event_id].at_ms

    @given(conversations)
    def test_bullets_are_few_short_different_and_weigh_something(
        self, said: list[Utterance]
    ) -> None:
        summary = extracting.summarize(said)
        shown = [point.text for point in summary.points]
        assert len(shown) <= extracting.MAX_POINTS
        assert len(set(shown)) == len(shown)
        for point in summary.points:
            assert point.text == " ".join(point.text.split())
            assert 0 < len(point.text) <= sentences.MAX_CHARS + 1
            assert point.weight > 0
        assert summary.title is None or 0 < len(summary.title) <= extracting.MAX_TITLE
        assert len(set(summary.keywords)) == len(summary.keywords) <= 12

    @given(conversations, conversations)
    def test_the_same_conversation_gives_the_same_summary(
        self, said: list[Utterance], before: list[Utterance]
    ) -> None:
        assert extracting.summarize(said, before) == extracting.summarize(
            tuple(said), tuple(before)
        )

    @given(st.text(st.characters(categories=("Lu", "Ll", "Nd")), min_size=1, max_size=60))
    def test_a_word_is_never_lost(self, text: str) -> None:
        said = Utterance(
            event_id=EventId("e"),
            at_ms=Millis(0),
            type=EventType.USER_MESSAGE,
            role=EventRole.USER,
            text=text,
        )
        assert len(extracting.summarize([said]).points) == 1

    @given(texts)
    def test_spans_are_in_order_and_do_not_overlap(self, text: str) -> None:
        end = 0
        for span in sentences.find_sentences(text):
            assert end <= span.start < span.end <= len(text)
            assert span.end - span.start <= sentences.MAX_CHARS
            end = span.end


class TestDigest:
    @given(st.lists(children, max_size=8))
    def test_every_bullet_is_a_childs_and_keeps_its_grips(
        self, given_children: list[ChildSummary]
    ) -> None:
        bullets = [one for child in given_children for one in child.bullets]
        digest = extracting.digest(given_children)
        assert len(digest.bullets) <= 7
        for bullet in digest.bullets:
            assert bullet.grip_ids
            assert len(set(bullet.grip_ids)) == len(bullet.grip_ids)
            assert set(bullet.grip_ids) <= {grip for one in bullets for grip in one.grip_ids}
            origin = [one for one in bullets if one.text == bullet.text]
            assert any(set(one.grip_ids) <= set(bullet.grip_ids) for one in origin)
            assert bullet.weight in {one.weight for one in origin}

    @given(st.lists(st.lists(grips, min_size=1, max_size=3), min_size=1, max_size=5))
    def test_the_same_bullet_of_many_children_is_one_with_all_grips(
        self, held: list[list[str]]
    ) -> None:
        digest = extracting.digest(
            [
                ChildSummary(
                    title="",
                    text="",
                    keywords=(),
                    bullets=(
                        ChildBullet(text="the fence is mended", weight=1.0, grip_ids=tuple(ids)),
                    ),
                )
                for ids in held
            ]
        )
        (bullet,) = digest.bullets
        assert set(bullet.grip_ids) == {grip for ids in held for grip in ids}

    @given(st.lists(children, max_size=5))
    def test_the_same_children_give_the_same_digest(
        self, given_children: list[ChildSummary]
    ) -> None:
        assert extracting.digest(given_children) == extracting.digest(tuple(given_children))
