"""The journal: days of the user's zone and whole sessions, over a real store."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import EventType
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.highlights import HighlightKind as Kind
from agent_memory.features.toc.model.highlights import Work
from agent_memory.features.toc.model.journal_entries import DayEntry, SessionEntry
from agent_memory.features.toc.model.periods import Level, Period
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.features.toc.services.journal import JournalScope, WorkJournal
from agent_memory.kernel.ids import MAX_MILLIS, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.journal_sessions import MINUTE, millis, write_segment
from tests.memory_engine import MemoryEngine
from tests.toc_harness import SetClock

NOW = "2026-06-01 12:00"
EVERYTHING = JournalScope()


@pytest.fixture
def store() -> Iterator[OrderedStore]:
    created = CommittedStore(MemoryEngine(), watch=unexpected)
    yield created
    created.close()


def open_journal(store: OrderedStore, zone: tzinfo = UTC, now: str = NOW) -> WorkJournal:
    log = StoredEventLog(store)
    return WorkJournal(log, log, StoredToc(store), SetClock(millis(now)), zone)


def list_ids(entries: tuple[SessionEntry, ...]) -> list[str]:
    return [entry.session_id for entry in entries]


def list_days(journal: WorkJournal, scope: JournalScope = EVERYTHING) -> dict[str, list[str]]:
    days = journal.list_days(scope).days
    return {entry.day.isoformat(): list_ids(entry.sessions) for entry in days}


def get_day(journal: WorkJournal, day: str) -> DayEntry:
    (entry,) = (each for each in journal.list_days(EVERYTHING).days if str(each.day) == day)
    return entry


class TestDays:
    def test_an_empty_table_has_none(self, store: OrderedStore) -> None:
        journal = open_journal(store)
        assert journal.list_days(EVERYTHING).days == ()
        assert journal.find_last(EVERYTHING) is None

    def test_a_day_is_the_users_own(self, store: OrderedStore) -> None:
        write_segment(store, "late", "2026-03-03 19:30", [])
        write_segment(store, "early", "2026-03-04 04:00", [])
        write_segment(store, "next", "2026-03-04 19:00", [])
        kolkata = open_journal(store, ZoneInfo("Asia/Kolkata"))  # 5:30 hours ahead of UTC
        assert list_days(kolkata) == {"2026-03-05": ["next"], "2026-03-04": ["late", "early"]}
        assert list_days(open_journal(store)) == {
            "2026-03-04": ["early", "next"],
            "2026-03-03": ["late"],
        }
        behind = JournalScope(zone=timezone(timedelta(hours=-5)))
        for journal in (open_journal(store), kolkata):  # the caller's zone counts
            assert list_days(journal, behind) == {
                "2026-03-04": ["next"],
                "2026-03-03": ["late", "early"],
            }

    def test_part_of_a_day_means_the_whole_day(self, store: OrderedStore) -> None:
        write_segment(store, "early", "2026-03-04 04:00", [])
        write_segment(store, "other", "2026-03-06 04:00", [])
        noon = millis("2026-03-04 12:00")
        assert list_days(open_journal(store), JournalScope(since=noon, until=noon)) == {
            "2026-03-04": ["early"]
        }

    def test_a_segment_across_midnight_is_divided_by_time(self, store: OrderedStore) -> None:
        said = [(Kind.DONE, "Before midnight", 3), (Kind.DONE, "After midnight", 12)]
        write_segment(store, "night", "2026-03-03 23:50", said, minutes=30)
        journal = open_journal(store)
        before, after = get_day(journal, "2026-03-03"), get_day(journal, "2026-03-04")
        assert [each.text for each in before.sessions[0].highlights] == ["Before midnight"]
        assert [each.text for each in after.sessions[0].highlights] == ["After midnight"]
        assert (before.work.seconds, after.work.seconds) == (599, 20 * 60)
        assert (before.work.commits, after.work.commits) == (1, 0)  # counted once
        assert (before.work.sessions, after.work.sessions) == (1, 1)
        assert before.sessions[0].end_ms <= before.end_ms < after.sessions[0].start_ms

    def test_the_day_on_which_the_clocks_change_has_23_hours(self, store: OrderedStore) -> None:
        write_segment(store, "spring", "2026-03-29 21:30", [], minutes=5)  # 23:30 in summer
        write_segment(store, "monday", "2026-03-29 22:10", [], minutes=5)
        berlin = open_journal(store, ZoneInfo("Europe/Berlin"))
        assert list_days(berlin) == {"2026-03-30": ["monday"], "2026-03-29": ["spring"]}
        day = get_day(berlin, "2026-03-29")
        assert day.end_ms + 1 - day.start_ms == 23 * 3_600_000

    def test_sessions_side_by_side_take_their_time_once(self, store: OrderedStore) -> None:
        write_segment(store, "one", "2026-03-04 10:00", [], minutes=20)
        write_segment(store, "two", "2026-03-04 10:10", [], minutes=20)
        assert get_day(open_journal(store), "2026-03-04").work == Work(
            sessions=2, prompts=2, commits=2, seconds=30 * 60, files=("one.py", "two.py")
        )

    def test_the_summary_is_that_of_the_stored_day_with_the_same_segments(
        self, store: OrderedStore
    ) -> None:
        held = write_segment(store, "one", "2026-03-04 10:00", [])
        write_day(store, date(2026, 3, 4), held, summary="The lamp is lit.")
        assert get_day(open_journal(store), "2026-03-04").summary == "The lamp is lit."
        own = open_journal(store).list_days(JournalScope(project="lantern")).days
        assert [entry.summary for entry in own] == ["1 session, 1 commit, 1 file changed, 10 min."]
        write_segment(store, "two", "2026-03-04 11:00", [])  # not rolled up yet
        assert get_day(open_journal(store), "2026-03-04").summary.startswith("2 sessions, ")

    def test_a_limit_leaves_out_the_oldest(self, store: OrderedStore) -> None:
        for number in range(1, 9):
            write_segment(store, f"s{number}", f"2026-03-0{number} 10:00", [])
        page = open_journal(store).list_days(EVERYTHING, limit=3)
        assert [entry.day.day for entry in page.days] == [8, 7, 6]
        assert page.more
        assert not open_journal(store).list_days(EVERYTHING, limit=8).more

    def test_a_project_has_only_its_own_segments(self, store: OrderedStore) -> None:
        write_segment(store, "one", "2026-03-04 10:00", [], project="lantern")
        write_segment(store, "two", "2026-03-04 11:00", [], project="harbour")
        journal = open_journal(store)
        assert list_days(journal, JournalScope(project="harbour")) == {"2026-03-04": ["two"]}
        assert list_days(journal, JournalScope(project="nowhere")) == {}
        assert journal.list_projects() == ["harbour", "lantern"]


def write_day(store: OrderedStore, day: date, *held: TocNode, summary: str) -> None:
    period = Period(level=Level.DAY, first=day)
    node = TocNode(
        node_id=period.node_id,
        level=Level.DAY,
        title=period.title,
        summary=summary,
        bullets=(),
        keywords=(),
        child_ids=tuple(node.node_id for node in held),
        start_ms=period.start_ms,
        end_ms=period.end_ms,
    )
    StoredToc(store).commit(TocChange(nodes=(NodeWrite(node=node, kept=False),)))


class TestSessions:
    def test_newest_first_and_whole(self, store: OrderedStore) -> None:
        write_segment(store, "long", "2026-03-01 10:00", [(Kind.DONE, "Begun", 0)])
        write_segment(store, "short", "2026-03-02 10:00", [])
        write_segment(store, "long", "2026-03-03 10:00", [(Kind.DONE, "Ended", 0)])
        since = millis("2026-03-03 00:00")
        (entry,) = open_journal(store).list_sessions(JournalScope(since=since), limit=5).sessions
        assert [each.text for each in entry.highlights] == ["Begun", "Ended"]
        assert (entry.start_ms, entry.end_ms) == (
            millis("2026-03-01 10:00"),
            millis("2026-03-03 10:10"),
        )
        assert entry.work.seconds == 2 * 600  # without the pause
        page = open_journal(store).list_sessions(EVERYTHING, limit=5)
        assert (list_ids(page.sessions), page.more) == (["long", "short"], False)
        page = open_journal(store).list_sessions(EVERYTHING, limit=1)
        assert (list_ids(page.sessions), page.more) == (["long"], True)

    def test_long_gaps_between_sessions_are_crossed(self, store: OrderedStore) -> None:
        for year in (1975, 1999, 2024, 2026, 2030):  # one of a clock that is ahead
            write_segment(store, f"y{year}", f"{year}-01-05 10:00", [])
        page = open_journal(store).list_sessions(EVERYTHING, limit=9)
        assert list_ids(page.sessions) == ["y2030", "y2026", "y2024", "y1999", "y1975"]
        until = JournalScope(until=millis("1999-01-05 10:05"))
        assert list_ids(open_journal(store).list_sessions(until, limit=9).sessions) == [
            "y1999",
            "y1975",
        ]

    def test_a_subagent_belongs_to_its_session(self, store: OrderedStore) -> None:
        write_segment(store, "main", "2026-03-01 10:00", [(Kind.DONE, "Built it", 1)], title="Lamp")
        write_segment(
            store, "main/helper", "2026-03-01 10:05", [(Kind.FOUND, "A leak", 2)], title="Search"
        )
        write_segment(store, "main-2", "2026-03-01 09:00", [])
        page = open_journal(store).list_sessions(EVERYTHING, limit=5)
        assert list_ids(page.sessions) == ["main", "main-2"]
        entry = page.sessions[0]
        assert [each.text for each in entry.highlights] == ["Built it", "A leak"]
        assert entry.title == "Lamp"
        assert entry.work.sessions == 1
        assert [node.session for node in entry.segments] == ["main", "main/helper"]

    def test_filters(self, store: OrderedStore) -> None:
        write_segment(store, "one", "2026-03-01 10:00", [], agent="codex", project="lantern")
        write_segment(store, "two", "2026-03-01 11:00", [], agent="gemini", project="harbour")
        journal = open_journal(store)

        def find(project: str = "", agent: str = "") -> list[str]:
            scope = JournalScope(project=project, agent=agent)
            return list_ids(journal.list_sessions(scope, limit=5).sessions)

        assert find(agent="codex") == ["one"]
        assert find(project="harbour") == ["two"]
        assert find(project="harbour", agent="codex") == []
        (entry,) = journal.list_sessions(JournalScope(agent="codex"), limit=5).sessions
        assert (entry.agent, entry.project) == ("codex", "lantern")

    @pytest.mark.parametrize(
        ("now", "last", "active"),
        [
            ("2026-03-01 10:39", EventType.ASSISTANT_MESSAGE, True),
            ("2026-03-01 10:41", EventType.ASSISTANT_MESSAGE, False),
            ("2026-03-01 10:11", EventType.SESSION_END, False),
        ],
    )
    def test_a_session_is_active_until_it_ends_or_pauses(
        self, store: OrderedStore, now: str, last: EventType, active: bool
    ) -> None:
        write_segment(store, "s", "2026-03-01 10:00", [], last=last)
        entry = open_journal(store, now=now).read_session(SessionId("s"))
        assert entry is not None
        assert entry.active is active

    def test_yesterdays_part_of_an_active_session_is_over(self, store: OrderedStore) -> None:
        write_segment(store, "s", "2026-03-01 22:00", [])
        write_segment(store, "s", "2026-03-02 10:00", [])
        new, old = open_journal(store, now="2026-03-02 10:12").list_days(EVERYTHING).days
        assert (new.sessions[0].active, old.sessions[0].active) == (True, False)

    def test_a_short_id_is_the_beginning_that_only_this_session_has(
        self, store: OrderedStore
    ) -> None:
        names = ("8463c716-a2ea", "fa812bfe-b295-4cca", "fa812bfe-b296-11aa", "tiny")
        for name in names:
            write_segment(store, name, "2026-03-01 10:00", [])
        write_segment(store, "8463c716-a2ea/helper", "2026-03-01 10:00", [])
        entries = [open_journal(store).read_session(SessionId(name)) for name in names]
        assert [entry and entry.short_id for entry in entries] == [
            "8463c716",
            "fa812bfe-b295",
            "fa812bfe-b296",
            "tiny",
        ]

    def test_a_session_whose_id_begins_an_event_is_named_in_full(self, store: OrderedStore) -> None:
        journal = open_journal(store)
        write_segment(store, "event-sourcing", "2026-03-01 10:00", [])
        entry = journal.read_session(SessionId("event-sourcing"))
        assert entry is not None
        assert entry.short_id == "event-so"
        write_segment(store, "sourcing", "2026-03-01 10:00", [])  # its events are event-sourcing@
        entry = journal.read_session(SessionId("event-sourcing"))
        assert entry is not None
        assert entry.short_id == "event-sourcing"

    def test_a_node_of_an_older_edition_waits_for_its_rebuild(self, store: OrderedStore) -> None:
        node = write_segment(store, "s", "2026-03-01 10:00", [])
        old = replace(node, session="", project="", work=Work(), version=2)
        StoredToc(store).commit(TocChange(nodes=(NodeWrite(node=old, kept=False),)))
        assert open_journal(store).list_sessions(JournalScope(), limit=5).sessions == ()

    def test_an_unknown_session_is_none(self, store: OrderedStore) -> None:
        assert open_journal(store).read_session(SessionId("nobody")) is None

    def test_times_at_the_end_of_the_range(self, store: OrderedStore) -> None:
        write_segment(store, "s", "2026-03-01 10:00", [], minutes=10)
        journal = open_journal(store)
        end = millis("2026-03-01 10:10")
        at_end = JournalScope(since=end, until=Millis(MAX_MILLIS))
        after = JournalScope(since=Millis(end + MINUTE))
        assert journal.find_last(at_end) is not None
        assert journal.find_last(after) is None

    def test_many_subagents_do_not_make_an_id_ambiguous(self, store: OrderedStore) -> None:
        write_segment(store, "8463c716-a2ea", "2026-03-01 10:00", [])
        for number in range(25):
            write_segment(store, f"8463c716-a2ea/{number}", "2026-03-01 10:00", [], minutes=1)
        journal = open_journal(store)
        entry = journal.read_session(SessionId("8463c716-a2ea"))
        assert entry is not None
        assert (entry.short_id, len(entry.segments)) == ("8463c716", 26)
        write_segment(store, "8463c716-b", "2026-03-01 10:00", [])
        entry = journal.read_session(SessionId("8463c716-a2ea"))
        assert entry is not None
        assert entry.short_id == "8463c716-a2ea"
