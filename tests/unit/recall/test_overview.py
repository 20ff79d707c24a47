"""Questions about a time and a kind, over real indexes: reports first, in scope, in the zone."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import Query, RecallResult, SearchScope
from agent_memory.features.log.model.events import Event
from agent_memory.features.recall.model import intents
from agent_memory.features.recall.services.overview import MAX_EVENTS
from tests.recall_parts import (
    HOUR,
    MINUTE,
    NOW,
    RecallHarness,
    list_texts,
    make_event,
    open_recall,
    parse_time,
)
from tests.toc_harness import build_rollup

EVENTS = SearchScope(kinds=frozenset({DocumentKind.EVENT}))
REPORT = "The importer is complete: it reads both formats, skips duplicates and has 14 tests."
SECOND = "The exporter is complete too. It writes one file per project, and the docs describe it."
ASKED = "Please write the importer, then the exporter."


def say(*lines: tuple[str, str], at: str, session: str, **about: str) -> list[Event]:
    return [
        make_event(text, parse_time(at) + number * MINUTE, session=session, role=role, **about)
        for number, (role, text) in enumerate(lines)
    ]


# Two tasks in the evening of Monday the 8th of June.
WORK = say(
    ("user", ASKED),
    ("assistant", "Let me look at the files."),
    ("assistant", "Now the tests."),
    ("assistant", REPORT),
    ("assistant", "Shall I go on?"),
    ("user", "Yes, go on."),
    ("assistant", "Now the exporter."),
    ("assistant", SECOND),
    ("assistant", "All pushed."),
    at="2026-06-08 18:00",
    session="work",
    project="ferry",
)
MORNING = say(
    ("user", "Why is the mill slow?"),
    ("assistant", "The mill is slow because the wheel was mounted the wrong way around."),
    at="2026-06-08 06:00",
    session="mill",
    project="mill",
)
LATER = say(
    ("user", "Rename the lantern module."),
    ("assistant", "Renamed the lantern module to lamp, in all 12 files that import it."),
    at="2026-06-10 09:00",
    session="lamp",
)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path) as created:
        created.keep(*WORK, *MORNING, *LATER)
        created.cut()
        build_rollup(created.store, created.clock).run(lambda _: None)
        created.keep_up()
        yield created


def ask_in(parts: RecallHarness, zone: str, text: str, scope: SearchScope) -> RecallResult:
    return parts.recall.search(Query(text=text, scope=scope, zone=ZoneInfo(zone)))


def list_kinds(answer: RecallResult) -> list[str]:
    return [hit.document.kind for hit in answer.hits]


def test_the_day_comes_first_then_the_report_of_each_session(parts: RecallHarness) -> None:
    answer = parts.ask("what did we do on 8 June?")
    day, *reports = answer.hits[:3]
    assert (day.document.kind, day.document.id) == (DocumentKind.SEGMENT, "toc:day:2026-06-08")
    assert day.node_id == "toc:day:2026-06-08"
    assert day.document.title == "Monday, June 8, 2026"
    assert [hit.document.text for hit in reports] == [SECOND, MORNING[1].text]
    assert LATER[1].text not in list_texts(answer)[:6]


def test_the_report_comes_before_the_day_if_it_is_the_only_one(parts: RecallHarness) -> None:
    report, day = parts.ask("what did we do on 10 June?").hits[:2]
    assert report.document.text == LATER[1].text
    assert day.document.id == "toc:day:2026-06-10"


def test_scores_fall_and_nothing_comes_twice(parts: RecallHarness) -> None:
    hits = parts.ask("what did we do on 8 June?", limit=100).hits
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == intents.TOP_SCORE
    keys = [hit.document.key for hit in hits]
    assert len(keys) == len(set(keys))


def test_a_week_is_a_week(parts: RecallHarness) -> None:
    first = parts.ask("what happened this week?").hits[0].document
    assert (first.kind, first.id) == (DocumentKind.SEGMENT, "toc:week:2026:W24")


def test_what_was_finished_begins_with_a_report(parts: RecallHarness) -> None:
    texts = list_texts(parts.ask("what did we finish on the evening of 8 June?"))
    assert texts[:3] == [SECOND, ASKED, REPORT]


def test_the_first_thing_finished_is_the_report_of_the_first_task(parts: RecallHarness) -> None:
    evening = "What was the first thing we finished on the evening of June 8?"
    assert list_texts(parts.ask(evening))[0] == REPORT
    assert list_texts(parts.ask("the first thing we finished on June 8"))[0] == MORNING[1].text


def test_the_last_work_is_that_of_the_newest_answered_session(parts: RecallHarness) -> None:
    parts.keep(make_event("where did we leave off?", NOW, session="asking"))
    texts = list_texts(parts.ask("where did we leave off?"))
    assert texts[:3] == [LATER[1].text, SECOND, MORNING[1].text]
    assert texts[3] == LATER[0].text
    assert "where did we leave off?" not in texts[:6]


def test_the_question_in_an_answered_session_is_not_its_prompt(parts: RecallHarness) -> None:
    parts.take_in(make_event("where did we leave off?", NOW, session="lamp"))
    assert list_texts(parts.ask("where did we leave off?"))[3] == LATER[0].text


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (replace(EVENTS, project="mill"), [MORNING[1].text, MORNING[0].text]),
        (replace(EVENTS, session="mill"), [MORNING[1].text, MORNING[0].text]),
        (replace(EVENTS, role="user"), [ASKED, MORNING[0].text]),
        (replace(EVENTS, until=parse_time("2026-06-08 12:00")), [MORNING[1].text, MORNING[0].text]),
        (replace(EVENTS, since=parse_time("2026-06-08 18:05")), [SECOND, "Yes, go on."]),
    ],
)
def test_filters_hold(parts: RecallHarness, scope: SearchScope, expected: list[str]) -> None:
    answer = parts.ask("what did we do on 8 June?", scope, limit=100)
    assert list_texts(answer)[: len(expected)] == expected
    assert all(scope.admits(hit.document) for hit in answer.hits)


def test_only_segments(parts: RecallHarness) -> None:
    scope = SearchScope(kinds=frozenset({DocumentKind.SEGMENT}))
    assert set(list_kinds(parts.ask("what did we do on 8 June?", scope))) == {DocumentKind.SEGMENT}


def test_pages_meet(parts: RecallHarness) -> None:
    whole = parts.ask("what did we do on 8 June?", limit=100)
    first = parts.ask("what did we do on 8 June?", limit=3)
    assert first.next == 3
    assert first.total == whole.total
    second = parts.ask("what did we do on 8 June?", limit=97, offset=3)
    assert [*first.hits, *second.hits] == list(whole.hits)


def test_unindexed_work_is_told(parts: RecallHarness) -> None:
    fresh = say(("user", "Paint it."), ("assistant", "Painted the door in a dark green, twice."),
                at="2026-06-10 11:00", session="paint")  # fmt: skip
    parts.keep(*fresh)
    assert list_texts(parts.ask("what were we working on?"))[0] == fresh[1].text
    assert fresh[1].text in list_texts(parts.ask("what did we do this morning?"))[:2]


def test_the_last_work_is_told_after_a_busy_hour(parts: RecallHarness) -> None:
    noise = [
        make_event(f"step {n}", NOW - HOUR + 10 * MINUTE + n, session="busy", role="tool")
        for n in range(MAX_EVENTS)
    ]
    report = make_event("Painted the door, twice.", NOW - 1, session="paint", role="assistant")
    parts.keep(*noise, report)
    assert list_texts(parts.ask("what were we working on?"))[0] == report.text


def test_a_subagent_is_part_of_its_session(parts: RecallHarness) -> None:
    inner = say(("user", "Explore."), ("assistant", "A long report of a subagent, " * 20),
                at="2026-06-10 09:30", session="lamp/agent-1")  # fmt: skip
    parts.take_in(*inner)
    assert list_texts(parts.ask("what did we do last?"))[0] == LATER[1].text


def test_a_time_without_work_is_named(parts: RecallHarness) -> None:
    found = parts.ask("what did we do on 3 March 2024?")
    assert not found.hits
    assert found.warning == "nothing was recorded on 3 March 2024"


class TestZones:
    """The evening work ended at 18:08 UTC, the morning's began at 06:00 UTC."""

    def test_an_evening_is_that_of_the_user(self, parts: RecallHarness) -> None:
        question = "what did we do on the evening of 8 June?"
        assert list_texts(ask_in(parts, "Europe/Berlin", question, EVENTS))[0] == SECOND
        # 18:00 UTC is 23:30 in Kolkata, and 06:00 UTC 11:30.
        assert list_texts(ask_in(parts, "Asia/Kolkata", question, EVENTS))[0] == SECOND
        # 18:00 UTC is 14:00 in New York, and 06:00 UTC is 02:00.
        answer = ask_in(parts, "America/New_York", question, EVENTS)
        assert all(hit.score < 0.9 for hit in answer.hits)

    def test_a_day_begins_at_the_users_midnight(self, parts: RecallHarness) -> None:
        late = say(("user", "One more."), ("assistant", "One more thing is done."),
                   at="2026-06-08 22:30", session="late")  # fmt: skip
        parts.take_in(*late)
        question = "what did we do on 8 June?"
        assert list_texts(ask_in(parts, "UTC", question, EVENTS))[0] == late[1].text
        assert list_texts(ask_in(parts, "Europe/Berlin", question, EVENTS))[0] == SECOND
        told = ask_in(parts, "Europe/Berlin", "what did we do on 9 June?", EVENTS)
        assert list_texts(told)[0] == late[1].text

    @pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Asia/Kolkata"])
    def test_the_summary_of_a_day_is_of_that_day_in_the_zone(
        self, parts: RecallHarness, zone: str
    ) -> None:
        hits = ask_in(parts, zone, "what did we do on 10 June?", SearchScope()).hits
        (day,) = [hit.document for hit in hits if hit.document.id == "toc:day:2026-06-10"]
        at = datetime.fromtimestamp(day.at_ms / 1000, ZoneInfo(zone))
        assert (at.month, at.day) == (6, 10)

    def test_options_are_read_in_the_zone(self, parts: RecallHarness) -> None:
        recall = replace(parts.recall, zone=ZoneInfo("Europe/Berlin"))
        start, end = recall.resolve_time("2026-06-08")
        assert start == parse_time("2026-06-07 22:00")
        assert end == start + 24 * HOUR - 1
        assert recall.resolve_time("2026-06-08T10:00")[0] == parse_time("2026-06-08 08:00")
        assert recall.resolve_time("2026-06-08T10:00Z")[0] == parse_time("2026-06-08 10:00")
