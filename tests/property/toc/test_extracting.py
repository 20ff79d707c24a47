"""Properties of the extractive summarizer, for any text."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import extracting, naming, outcomes, reports
from agent_memory.features.toc.model.digests import MAX_DAY_BULLETS
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind
from agent_memory.features.toc.model.last_words import MAX_GRIPS
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.summaries import ChildSummary, PeriodSummary, Utterance
from agent_memory.kernel.ids import EventId, Millis
from agent_memory.kernel.text import sentences

fragments = st.sampled_from(
    [
        "the", "We decided", "SQLite", "scanner.py", ". ", "! ", "? ", ": ", ", ", "\n", "\n\n",
        "- ", "```\n", '  File "a.py", line 3', "...", "e.g. ", "0.9", "https://example.org/x ",
        "Error: ", "FAILED tests/a.py ", "**", "`x_y`", "👍", "我们。", "\t", "\r\n", "(", "] ",
        " because ", " 5 GB", "Bash: git commit -m 'x y z'\n", "| a | b |\n|---|---|\n",
        "All 12 tests pass", "## Done\n", "[x] mend the fence\n", "Let me ", "It IS ", "app-x1.2",
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
    tool_name=st.sampled_from(["", "Bash", "Edit", "TodoWrite"]),
    file=st.sampled_from(["", "src/a.py", "b.py"]),
    failed=st.booleans(),
    titles=st.sampled_from(["", "", "user", "agent"]),
    summarizes=st.sampled_from(["", "", "compaction", "session"]),
)
conversations = st.lists(utterances, max_size=12, unique_by=lambda one: one.event_id)
grips = st.sampled_from([f"g{n}" for n in range(20)])
children = st.builds(
    ChildSummary,
    title=texts,
    text=texts,
    highlights=st.lists(
        st.builds(
            Highlight,
            text=texts | st.sampled_from(["the fence is mended", "The fence is mended!"]),
            weight=st.floats(0.001, 10),
            grip_ids=st.lists(grips, max_size=3).map(tuple),
            kind=st.sampled_from(HighlightKind),
            at_ms=st.integers(0, 10**12).map(Millis),
            session=st.sampled_from(["", "one", "two"]),
            project=st.sampled_from(["", "barn", "mill"]),
            reported=st.booleans(),
        ),
        max_size=6,
    ).map(tuple),
    keywords=st.lists(st.text(min_size=1, max_size=20), max_size=12).map(tuple),
)
levels = st.sampled_from([Level.DAY, Level.WEEK, Level.MONTH, Level.YEAR])
periods = st.builds(PeriodSummary, level=levels, children=st.lists(children, max_size=8).map(tuple))


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
        assert len(shown) <= outcomes.MAX_REPORTED
        assert len(set(shown)) == len(shown)
        for point in summary.points:
            assert point.text == " ".join(point.text.split())
            assert 0 < len(point.text) <= reports.MAX_CHARS + len("Asked: ") + 1
            assert point.weight > 0
        assert summary.title is None or 0 < len(summary.title) <= naming.MAX_TITLE + 1
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
    @given(periods)
    def test_every_bullet_has_grips_of_the_children(self, period: PeriodSummary) -> None:
        held = {
            grip for child in period.children for one in child.highlights for grip in one.grip_ids
        }
        digest = extracting.digest(period)
        assert len(digest.bullets) <= MAX_DAY_BULLETS + 20
        for grip_ids in [
            *(bullet.grip_ids for bullet in digest.bullets),
            *(highlight.grip_ids for highlight in digest.highlights),
        ]:
            assert grip_ids
            assert len(set(grip_ids)) == len(grip_ids)
            assert set(grip_ids) <= held

    @given(periods)
    def test_what_is_planned_never_rises(self, period: PeriodSummary) -> None:
        kinds = {one.kind for one in extracting.digest(period).highlights}
        assert HighlightKind.PLANNED not in kinds

    @given(levels, st.lists(st.lists(grips, min_size=1, max_size=3), min_size=1, max_size=5))
    def test_the_same_bullet_of_many_children_is_one_with_all_grips(
        self, level: Level, held: list[list[str]]
    ) -> None:
        digest = extracting.digest(
            PeriodSummary(
                level=level,
                children=tuple(
                    ChildSummary(
                        title="",
                        text="",
                        keywords=(),
                        highlights=(
                            Highlight(text="the fence is mended", weight=1.0, grip_ids=tuple(ids)),
                        ),
                    )
                    for ids in held
                ),
            )
        )
        (bullet,) = digest.bullets
        said = list(dict.fromkeys(grip for ids in held for grip in ids))
        assert set(bullet.grip_ids) <= set(said)
        assert len(bullet.grip_ids) == min(len(said), MAX_GRIPS)

    @given(periods)
    def test_the_same_children_give_the_same_digest(self, period: PeriodSummary) -> None:
        assert extracting.digest(period) == extracting.digest(replace(period))
