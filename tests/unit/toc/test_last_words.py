"""Last words: what still holds of the sessions of a period."""

import pytest

from agent_memory.features.toc.model import last_words
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind
from agent_memory.features.toc.model.last_words import SessionHighlights
from agent_memory.kernel.ids import Millis

ASKED, PLANNED, FINISHED = HighlightKind.ASKED, HighlightKind.PLANNED, HighlightKind.FINISHED
DONE, DECIDED, FOUND = HighlightKind.DONE, HighlightKind.DECIDED, HighlightKind.FOUND
BROKEN, OPEN = HighlightKind.BROKEN, HighlightKind.OPEN
STATE, NOTE = HighlightKind.STATE, HighlightKind.NOTE


def highlight(
    at: int,
    kind: HighlightKind,
    text: str,
    *,
    session: str = "one",
    project: str = "shop",
    reported: bool = False,
    corrects: bool = False,
    weight: float = 1.0,
) -> Highlight:
    return Highlight(
        text=text,
        grip_ids=(f"g{at}",),
        weight=weight,
        kind=kind,
        at_ms=Millis(at),
        session=session,
        project=project,
        reported=reported,
        corrects=corrects,
    )


def tell(*highlights: Highlight) -> list[str]:
    """Return what is told, as "kind: text", with the lead of each session first."""
    stories = last_words.summarize_sessions(highlights)
    return [
        f"{each.kind.word}: {each.text}"
        for story in stories
        for each in ([story.lead] if story.lead else []) + story.rest
    ]


def tell_one(*highlights: Highlight) -> SessionHighlights:
    (story,) = last_words.summarize_sessions(highlights)
    return story


class TestStates:
    def test_the_last_measurement_of_each_project(self) -> None:
        assert tell(
            highlight(1, STATE, "40 tests pass"),
            highlight(2, STATE, "41 tests pass", session="two"),
            highlight(3, STATE, "7 specs pass", session="three", project="app"),
        ) == ["state: 41 tests pass", "state: 7 specs pass"]

    def test_a_reported_measurement_holds_in_its_session(self) -> None:
        assert tell(
            highlight(1, STATE, "All 41 tests pass", reported=True),
            highlight(2, STATE, "3 tests pass"),
        ) == ["state: All 41 tests pass"]

    def test_a_later_session_measures_again(self) -> None:
        assert tell(
            highlight(1, STATE, "All 41 tests pass", reported=True),
            highlight(2, STATE, "3 tests fail", session="two"),
        ) == ["state: 3 tests fail"]


class TestCorrections:
    def test_what_a_later_sentence_contradicts_does_not_rise(self) -> None:
        assert tell(
            highlight(1, FOUND, "The root cause is the Redis cache"),
            highlight(
                2, FOUND, "Actually it is not the Redis cache, it is the proxy", corrects=True
            ),
        ) == ["found: Actually it is not the Redis cache, it is the proxy"]

    def test_that_is_not_it_means_the_finding_before(self) -> None:
        assert tell(
            highlight(1, FOUND, "The cause is the eviction policy"),
            highlight(2, FOUND, "That is not it: nothing is evicted", corrects=True),
            highlight(3, FOUND, "The cookie has a short age"),
        ) == ["found: The cookie has a short age"]

    def test_a_withdrawn_decision(self) -> None:
        assert tell(
            highlight(1, DECIDED, "Reviews go into MongoDB"),
            highlight(2, DECIDED, "Reviews go into Postgres instead", corrects=True),
        ) == ["decided: Reviews go into Postgres instead"]

    def test_another_session_is_not_corrected(self) -> None:
        shown = tell(
            highlight(1, FOUND, "The cause is the proxy", session="two"),
            highlight(2, FOUND, "Actually it is not the proxy", corrects=True),
        )
        assert len(shown) == 2


class TestFailures:
    @pytest.mark.parametrize(
        "mended",
        [
            highlight(2, STATE, "41 tests pass"),
            highlight(2, DONE, "Checked the file before the upload"),
            highlight(2, FINISHED, "The epic is complete"),
        ],
    )
    def test_a_mended_failure_does_not_rise(self, mended: Highlight) -> None:
        shown = tell(highlight(1, BROKEN, "The upload crashes on an empty file"), mended)
        assert not any(line.startswith("broken") for line in shown)

    @pytest.mark.parametrize(
        "later",
        [
            highlight(2, STATE, "3 tests fail"),
            highlight(2, STATE, "Not all tests pass"),
            highlight(2, DONE, "Moved the coupon into the cart"),
            highlight(2, FOUND, "The bucket needs a policy"),
            highlight(2, DONE, "Moved the coupon into the cart", session="two"),
        ],
    )
    def test_other_failures_rise(self, later: Highlight) -> None:
        shown = tell(highlight(1, BROKEN, "The upload crashes on an empty file"), later)
        assert "broken: The upload crashes on an empty file" in shown


class TestOpenItems:
    ITEM = highlight(1, OPEN, "Backfill the orders of May (etl-9k2)")

    @pytest.mark.parametrize(
        "later",
        [
            highlight(2, DONE, "Loaded rows again (etl-9k2)", session="two"),
            highlight(2, DONE, "Run the backfill of all orders of May", session="two"),
            highlight(2, FINISHED, "etl-9k2 is complete"),
        ],
    )
    def test_what_was_done_later_is_closed(self, later: Highlight) -> None:
        assert not any(line.startswith("open") for line in tell(self.ITEM, later))

    @pytest.mark.parametrize(
        "other",
        [
            highlight(2, DONE, "Loaded rows again (etl-7)"),
            highlight(2, FOUND, "The backfill of all orders of May takes an hour"),
            highlight(
                2, DONE, "Run the backfill of all orders of May", project="app", session="two"
            ),
            highlight(0, DONE, "Run the backfill of all orders of May"),
        ],
    )
    def test_what_was_not_done_later_stays_open(self, other: Highlight) -> None:
        assert f"open: {self.ITEM.text}" in tell(self.ITEM, other)

    def test_a_later_report_of_the_session_has_the_last_word(self) -> None:
        assert tell(
            highlight(1, OPEN, "Write the release notes", reported=True),
            highlight(2, DONE, "Added the changelog page", reported=True),
            highlight(2, OPEN, "Announce it in the forum", reported=True),
        ) == ["done: Added the changelog page", "open: Announce it in the forum"]


class TestMerging:
    def test_the_same_words_are_one_with_all_grips(self) -> None:
        (one,) = last_words.merge(
            [
                highlight(1, DONE, "Added a map to the store finder", weight=1.0),
                highlight(2, DONE, "Added the map to the store finder.", weight=2.0),
            ]
        )
        assert (one.text, one.grip_ids, one.at_ms) == (
            "Added the map to the store finder.",
            ("g1", "g2"),
            2,
        )

    def test_the_words_of_a_report_are_kept(self) -> None:
        (one,) = last_words.merge(
            [
                highlight(1, DONE, "Added a map to the store finder", reported=True),
                highlight(2, DONE, "Added the map to the store finder.", weight=9.0),
            ]
        )
        assert one.text == "Added a map to the store finder"

    def test_the_same_issue_with_common_words_is_one(self) -> None:
        one = highlight(1, DONE, "PAY-7: refund only once per order")
        other = highlight(2, DONE, "PAY-7: the refund form shows the bank account")
        assert len(last_words.merge([one, other])) == 1
        apart = highlight(2, DONE, "PAY-7: the refund form shows the bank account", session="two")
        assert len(last_words.merge([one, apart])) == 2

    def test_that_an_issue_is_done_does_not_replace_how(self) -> None:
        shown = [
            highlight(1, DONE, "PAY-7: refund only once per order"),
            highlight(2, DONE, "PAY-7 is complete and pushed", reported=True),
        ]
        assert last_words.merge(shown) == shown

    def test_different_things_stay_apart(self) -> None:
        shown = [
            highlight(1, DONE, "Added a map to the store finder"),
            highlight(2, DONE, "Removed the v1 payment endpoint"),
        ]
        assert last_words.merge(shown) == shown

    def test_nothing_to_merge(self) -> None:
        assert last_words.merge([]) == []


class TestLeads:
    def test_the_request_if_nothing_says_that_it_is_finished(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Speed up the build"), highlight(2, FOUND, "CI is slow")
        )
        assert story.lead is not None
        assert (story.lead.kind, story.lead.text) == (ASKED, "Speed up the build")

    def test_the_request_and_that_it_is_complete(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Stop double loads (etl-9k2)"),
            highlight(2, FINISHED, "etl-9k2 is completed and pushed"),
        )
        assert story.lead is not None
        assert story.lead.text == "Stop double loads (etl-9k2), complete"
        assert story.lead.kind is FINISHED
        assert story.lead.grip_ids == ("g2", "g1")
        assert story.rest == []

    @pytest.mark.parametrize("text", ["Everything is done.", "All done and pushed"])
    def test_a_bare_end_is_told_with_the_request(self, text: str) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Speed up the build"), highlight(2, FINISHED, text)
        )
        assert story.lead is not None
        assert story.lead.text == "Speed up the build, done"

    def test_a_milestone_of_another_task_stands_alone(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Stop double loads (etl-9k2)"),
            highlight(2, FINISHED, "The migration of the warehouse to Iceberg is finished"),
        )
        assert story.lead is not None
        assert story.lead.text == "The migration of the warehouse to Iceberg is finished"

    def test_a_milestone_that_repeats_the_request_stands_alone(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Migrate the warehouse to Iceberg"),
            highlight(2, FINISHED, "The migration of the warehouse to Iceberg is finished"),
        )
        assert story.lead is not None
        assert story.lead.text == "The migration of the warehouse to Iceberg is finished"

    def test_a_report_in_the_words_of_the_request_finishes_it(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: Add a map to the store finder"),
            highlight(2, DONE, "Added the map to the store finder page", reported=True),
        )
        assert story.lead is not None
        assert story.lead.kind is FINISHED
        assert story.rest == []

    def test_lesser_milestones_are_things_done(self) -> None:
        story = tell_one(
            highlight(1, FINISHED, "The lexer task is finished"),
            highlight(2, FINISHED, "The epic with all parsers is complete"),
        )
        assert story.lead is not None
        assert story.lead.text == "The epic with all parsers is complete"
        assert [(each.kind, each.text) for each in story.rest] == [
            (DONE, "The lexer task is finished")
        ]

    def test_the_title_of_a_session_leads_before_its_prompts(self) -> None:
        story = tell_one(
            highlight(1, ASKED, "Asked: have a look at the build"),
            highlight(2, ASKED, "Faster builds with a remote cache", reported=True),
        )
        assert story.lead is not None
        assert story.lead.text == "Faster builds with a remote cache"


class TestSessions:
    def test_a_subagents_words_belong_to_its_session(self) -> None:
        """The highlights of a subagent have the session that started it."""
        (story,) = last_words.summarize_sessions(
            [
                highlight(1, ASKED, "Asked: Review the API"),
                highlight(2, FOUND, "Two routes lack a limit"),
            ]
        )
        assert (story.session, story.project) == ("one", "shop")

    def test_sessions_come_by_their_first_words(self) -> None:
        stories = last_words.summarize_sessions(
            [
                highlight(3, DONE, "Added b"),
                highlight(1, DONE, "Added c", session="two"),
                highlight(2, NOTE, "d"),
            ]
        )
        assert [story.session for story in stories] == ["two", "one"]

    def test_a_chat_with_only_notes_keeps_them(self) -> None:
        assert tell(
            highlight(1, NOTE, "The regatta starts in Kiel"), highlight(2, NOTE, "Bo sails")
        ) == [
            "note: The regatta starts in Kiel",
            "note: Bo sails",
        ]

    def test_notes_do_not_rise_beside_outcomes(self) -> None:
        assert tell(
            highlight(1, NOTE, "The parser is small"), highlight(2, DONE, "Added tabs")
        ) == ["done: Added tabs"]

    def test_plans_and_words_without_a_grip_are_left_out(self) -> None:
        loose = Highlight(text="Added tabs", grip_ids=(), weight=1.0, kind=DONE)
        assert last_words.summarize_sessions([highlight(1, PLANNED, "Planned: tabs"), loose]) == []
