"""The table of contents of a real daemon: from the years to the events, and what changes it."""

import time
from collections.abc import Iterator

import grpc
import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import wait_until
from tests.daemon_process import Daemon
from tests.memory_client import Client
from tests.toc_conversations import (
    DAYS,
    EVERYTHING,
    FERRY_MORNING,
    FERRY_NOON,
    MILL,
    MINUTE,
    NIGHT,
    SECONDS,
    SHAPE,
    Toc,
    assert_every_bullet_leads_to_its_events,
    conversation,
    find_context,
    make_event,
    millis,
)

CROWD = 105
CROWDED_DAY = "toc:day:2023-05-10"
CROWDED = [
    make_event(
        f"crowd-{n:03}", 0, millis("2023-05-10 06:00") + n * 1000, "user", f"Note number {n}."
    )
    for n in range(CROWD)
]
LONG = [
    make_event(
        "long",
        number,
        millis("2022-02-02 10:00") + number * 1000,
        "user" if number % 2 else "assistant",
        f"Station {number} reports a level of {number * 7 % 31} centimetres.",
    )
    for number in range(250)
]
RECORDED = [*EVERYTHING, *CROWDED, *LONG]


@pytest.fixture(scope="module")
def recorded(shared_daemon: Daemon) -> Iterator[Toc]:
    """A daemon that was told everything, and has it in its table of contents."""
    with shared_daemon.client() as client:
        assert all(outcome.created for outcome in client.ingest_all(RECORDED))
        toc = Toc(client)
        stretches = [each for day in DAYS.values() for each in day]
        toc.wait_for([*stretches, *([event] for event in CROWDED), LONG])
        toc.settle()
        yield toc


@pytest.fixture
def own(daemon: Daemon) -> Iterator[tuple[Client, Toc]]:
    """An empty daemon of the test's own."""
    with daemon.client() as client:
        yield client, Toc(client)


def assert_refused(error: grpc.RpcError, said_: str) -> None:
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said_ in (error.details() or "")


class TestWalking:
    def test_the_years_come_newest_first(self, recorded: Toc) -> None:
        years = [node.node_id for node in recorded.list_years()]
        assert years == ["toc:year:2026", "toc:year:2024", "toc:year:2023", "toc:year:2022"]

    def test_every_period_has_the_children_of_its_time_in_order(self, recorded: Toc) -> None:
        for parent, children in SHAPE.items():
            assert [node.node_id for node in recorded.list_children(parent)] == children
            assert list(recorded.get_node(parent).child_node_ids) == children

    def test_a_day_lists_its_segments_by_time(self, recorded: Toc) -> None:
        for day, stretches in DAYS.items():
            found = recorded.list_children(day)
            assert [(node.start_time_ms, node.end_time_ms) for node in found] == [
                (each[0].timestamp_ms, each[-1].timestamp_ms) for each in stretches
            ]
            for node in found:
                assert node.level == pb.TOC_LEVEL_SEGMENT
                assert node.node_id.startswith(f"toc:segment:{day.removeprefix('toc:day:')}:")
                assert len(node.node_id.rpartition(":")[2]) == 26
                assert not node.child_node_ids
                assert node.title
                assert node.summary
                assert node.keywords
                assert node.version >= 1

    @pytest.mark.parametrize(
        ("node_id", "level", "title", "first", "last"),
        [
            ("toc:year:2026", pb.TOC_LEVEL_YEAR, "2026", "2026-01-01", "2026-12-31"),
            ("toc:month:2026:01", pb.TOC_LEVEL_MONTH, "January 2026", "2026-01-01", "2026-01-31"),
            ("toc:month:2026:04", pb.TOC_LEVEL_MONTH, "April 2026", "2026-04-01", "2026-04-30"),
            ("toc:week:2026:W01", pb.TOC_LEVEL_WEEK, "Week 1 of 2026", "2025-12-29", "2026-01-04"),
            ("toc:week:2026:W14", pb.TOC_LEVEL_WEEK, "Week 14 of 2026", "2026-03-30", "2026-04-05"),
            (
                "toc:day:2026-01-30",
                pb.TOC_LEVEL_DAY,
                "Friday, January 30, 2026",
                "2026-01-30",
                "2026-01-30",
            ),
            (
                "toc:day:2024-07-03",
                pb.TOC_LEVEL_DAY,
                "Wednesday, July 3, 2024",
                "2024-07-03",
                "2024-07-03",
            ),
        ],
    )
    def test_a_period_has_its_own_title_and_bounds(
        self, recorded: Toc, node_id: str, level: int, title: str, first: str, last: str
    ) -> None:
        found = recorded.get_node(node_id)
        assert (found.node_id, found.level, found.title) == (node_id, level, title)
        assert found.start_time_ms == millis(first)
        assert found.end_time_ms == millis(f"{last} 23:59:59") + 999

    def test_a_week_across_the_new_year_hangs_under_the_year_of_its_thursday(
        self, recorded: Toc
    ) -> None:
        assert recorded.find("toc:year:2025") is None
        (day,) = recorded.list_children("toc:week:2026:W01")
        assert day.node_id == "toc:day:2025-12-29"

    def test_talk_across_midnight_hangs_under_the_day_it_began(self, recorded: Toc) -> None:
        assert recorded.find("toc:day:2026-04-01") is None
        (segment,) = recorded.list_children("toc:day:2026-03-31")
        assert segment.end_time_ms == NIGHT[-1].timestamp_ms > millis("2026-04-01")

    @pytest.mark.parametrize(
        ("spelling", "node_id"),
        [
            ("toc:month:2026-01", "toc:month:2026:01"),
            ("toc:week:2026-W05", "toc:week:2026:W05"),
            ("toc:week:2026-W01", "toc:week:2026:W01"),
        ],
    )
    def test_the_other_spelling_of_an_id_is_read_too(
        self, recorded: Toc, spelling: str, node_id: str
    ) -> None:
        assert recorded.get_node(spelling) == recorded.get_node(node_id)
        assert recorded.browse(spelling) == recorded.browse(node_id)
        assert recorded.browse(spelling).children

    def test_a_node_is_the_same_by_its_id_and_among_its_siblings(self, recorded: Toc) -> None:
        for node in recorded.walk():
            assert recorded.get_node(node.node_id) == node

    def test_every_bullet_at_every_level_leads_to_its_events(self, recorded: Toc) -> None:
        assert_every_bullet_leads_to_its_events(recorded, RECORDED)

    def test_a_segments_grips_stand_in_its_own_events(self, recorded: Toc) -> None:
        for day, stretches in DAYS.items():
            for node, stretch in zip(recorded.list_children(day), stretches, strict=True):
                ids = {event.event_id for event in stretch}
                for bullet in node.bullets:
                    for grip_id in bullet.grip_ids:
                        grip = recorded.expand(grip_id).grip
                        assert grip.event_id_start in ids
                        assert grip.toc_node_id == node.node_id
                        assert grip.source

    def test_a_parents_grips_are_those_of_its_segments(self, recorded: Toc) -> None:
        def list_grips(node: pb.TocNode) -> set[str]:
            return {grip_id for bullet in node.bullets for grip_id in bullet.grip_ids}

        def list_below(node: pb.TocNode) -> set[str]:
            if not node.child_node_ids:
                return list_grips(node)
            children = recorded.list_children(node.node_id)
            return {grip_id for child in children for grip_id in list_below(child)}

        for node in recorded.walk():
            assert list_grips(node) <= list_below(node)


class TestWhatIsNotThere:
    @pytest.mark.parametrize(
        "node_id",
        [
            "toc:year:1999",
            "toc:day:2026-01-31",
            "toc:segment:2026-01-30:00000000000000000000000000",
            "toc:month:2026:13",
            "toc:week:2026:W54",
            "toc:day:2026-02-30",
            "toc:year:26",
            "toc:year:",
            "toc:segment:01HXYZABC123",
            "nonsense",
            " toc:year:2026",
            "toc:year:2026\n",
            "toc:day:2026-01-30:v000001",
            "\0",
            "日本",
            "x" * 100_000,
        ],
    )
    def test_an_unknown_or_malformed_node_is_an_empty_answer(
        self, recorded: Toc, node_id: str
    ) -> None:
        assert recorded.find(node_id) is None
        assert recorded.browse(node_id) == pb.BrowseTocResponse()

    @pytest.mark.parametrize(
        "grip_id",
        ["nonexistent", "grip:0000000000000:00000000000000000000000000", "grip:", "\0", "日本"],
    )
    def test_an_unknown_grip_is_an_empty_answer(self, recorded: Toc, grip_id: str) -> None:
        assert recorded.expand(grip_id) == pb.ExpandGripResponse()

    def test_an_empty_id_is_refused_by_its_name(self, recorded: Toc) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            recorded.find("")
        assert_refused(refused.value, "node_id")
        with pytest.raises(grpc.RpcError) as refused:
            recorded.browse("")
        assert_refused(refused.value, "parent_id")
        with pytest.raises(grpc.RpcError) as refused:
            recorded.expand("")
        assert_refused(refused.value, "grip_id")

    def test_a_segment_has_no_children(self, recorded: Toc) -> None:
        (segment,) = recorded.list_children("toc:day:2026-03-31")
        assert recorded.browse(segment.node_id) == pb.BrowseTocResponse()

    def test_an_empty_store_has_no_years(self, own: tuple[Client, Toc]) -> None:
        _, toc = own
        assert toc.list_years() == []
        toc.settle()
        assert toc.list_years() == []


class TestPages:
    def test_tokens_are_offsets_that_lead_to_the_end(self, recorded: Toc) -> None:
        first = recorded.browse("toc:day:2026-01-30", 2)
        assert (len(first.children), first.continuation_token, first.has_more) == (2, "2", True)
        second = recorded.browse("toc:day:2026-01-30", 2, "2")
        assert (len(second.children), second.has_more) == (1, False)
        assert not second.HasField("continuation_token")
        assert [*first.children, *second.children] == recorded.list_children("toc:day:2026-01-30")

    @pytest.mark.parametrize(
        ("limit", "size"), [(0, 20), (1, 1), (20, 20), (100, 100), (101, 100), (2**31 - 1, 100)]
    )
    def test_a_page_has_the_size_asked_for_20_unless_given_and_100_at_most(
        self, recorded: Toc, limit: int, size: int
    ) -> None:
        page = recorded.browse(CROWDED_DAY, limit)
        assert len(page.children) == size
        assert (page.continuation_token, page.has_more) == (str(size), True)
        assert [node.start_time_ms for node in page.children] == [
            event.timestamp_ms for event in CROWDED[:size]
        ]

    def test_a_page_that_ends_with_the_last_child_is_the_last(self, recorded: Toc) -> None:
        page = recorded.browse(CROWDED_DAY, 5, "100")
        assert (len(page.children), page.has_more) == (5, False)
        assert not page.HasField("continuation_token")

    def test_beyond_the_end_there_is_nothing(self, recorded: Toc) -> None:
        assert recorded.browse(CROWDED_DAY, 5, "105") == pb.BrowseTocResponse()
        assert recorded.browse(CROWDED_DAY, 5, "999999999") == pb.BrowseTocResponse()

    def test_a_negative_limit_is_refused(self, recorded: Toc) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            recorded.browse(CROWDED_DAY, -1)
        assert_refused(refused.value, "limit is -1")

    @pytest.mark.parametrize("token", ["", "x", "-1", "1.5", " 1", "1" * 40, "²", "0x1"])
    def test_a_token_that_the_server_did_not_give_is_refused(
        self, recorded: Toc, token: str
    ) -> None:
        with pytest.raises(grpc.RpcError) as refused:
            recorded.browse(CROWDED_DAY, 5, token)
        assert_refused(refused.value, "continuation_token")


class TestExpanding:
    def _grips(self, toc: Toc, day: str) -> list[str]:
        return [
            grip_id
            for node in toc.list_children(day)
            for bullet in node.bullets
            for grip_id in bullet.grip_ids
        ]

    def test_context_comes_from_the_grips_own_session_only(self, recorded: Toc) -> None:
        """Of two sessions whose lines alternate."""
        sessions = set()
        for grip_id in self._grips(recorded, "toc:day:2026-01-30"):
            found = recorded.expand(grip_id, 100, 100)
            (itself,) = found.excerpt_events
            wanted = find_context(RECORDED, itself.event_id)
            assert list(found.events_before) == wanted.before
            assert list(found.events_after) == wanted.after
            sessions.add(itself.session_id)
        assert sessions == {"ferry", "mill"}
        assert FERRY_MORNING[0].timestamp_ms < MILL[0].timestamp_ms < FERRY_MORNING[1].timestamp_ms

    @pytest.mark.parametrize(
        ("before", "after"),
        [(None, None), (0, 0), (0, None), (None, 0), (1, 2), (100, 100), (101, 2**31 - 1)],
    )
    def test_as_many_as_asked_for_3_unless_given_and_100_at_most(
        self, recorded: Toc, before: int | None, after: int | None
    ) -> None:
        for grip_id in self._grips(recorded, "toc:day:2022-02-02"):
            found = recorded.expand(grip_id, before, after)
            wanted = find_context(RECORDED, found.grip.event_id_start)
            size = min(3 if before is None else before, 100)
            assert list(found.events_before) == wanted.before[::-1][:size][::-1]
            size = min(3 if after is None else after, 100)
            assert list(found.events_after) == wanted.after[:size]
            assert list(found.excerpt_events) == [wanted.itself]

    def test_a_negative_number_of_events_is_refused(self, recorded: Toc) -> None:
        grip_id = self._grips(recorded, "toc:day:2022-02-02")[0]
        with pytest.raises(grpc.RpcError) as refused:
            recorded.expand(grip_id, -1, None)
        assert_refused(refused.value, "events_before is -1")
        with pytest.raises(grpc.RpcError) as refused:
            recorded.expand(grip_id, None, -1)
        assert_refused(refused.value, "events_after is -1")


class TestLiving:
    def test_the_open_conversation_is_there_at_once_grows_and_is_closed_by_its_end(
        self, own: tuple[Client, Toc]
    ) -> None:
        client, toc = own
        now = int(time.time() * 1000) - 5 * MINUTE
        lines = [
            ("user", "The lighthouse lamp flickers whenever the generator starts."),
            ("assistant", "The inrush current pulls the rail down to nine volts."),
            ("user", "Add a soft start of two seconds to the generator relay."),
            ("end", ""),
        ]
        talk = conversation("lamp", now, lines)
        seen: list[pb.TocNode] = []
        for number, event in enumerate(talk):
            client.ingest(event)
            toc.wait_for([talk[: number + 1]])
            seen += toc.segments()
        assert len({node.node_id for node in seen}) == 1
        assert [node.version for node in seen] == sorted({node.version for node in seen})
        assert seen[0].bullets

        # Although within the pause, what follows the end is a new segment.
        more = make_event(
            "lamp", 9, now + 4 * MINUTE, "user", "One more question about the lens motor."
        )
        client.ingest(more)
        toc.wait_for([talk, [more]])
        assert seen[-1] in toc.segments()

    def test_today_is_in_the_tree_by_its_own_name(self, own: tuple[Client, Toc]) -> None:
        client, toc = own
        now = int(time.time() * 1000)
        today = time.strftime("%Y-%m-%d", time.gmtime(now / 1000))
        client.ingest(make_event("today", 0, now, "user", "Is the tide table loaded for today?"))
        wait_until(lambda: toc.find(f"toc:day:{today}") is not None, "today is there", SECONDS)
        wait_until(lambda: bool(toc.list_years()), "and its year", SECONDS)
        assert f"toc:day:{today}" in [node.node_id for node in toc.walk()]

    def test_two_sessions_at_once_are_two_segments_of_their_day(
        self, own: tuple[Client, Toc]
    ) -> None:
        client, toc = own
        by_turns = [event for pair in zip(FERRY_MORNING, MILL, strict=True) for event in pair]
        for event in by_turns:
            client.ingest(event)
        toc.settle()
        toc.wait_for([FERRY_MORNING, MILL])
        assert len(toc.list_children("toc:day:2026-01-30")) == 2

    def test_a_pause_ends_a_segment_and_half_an_hour_less_a_millisecond_does_not(
        self, own: tuple[Client, Toc]
    ) -> None:
        client, toc = own
        at = millis("2026-01-30 09:00")
        gap = 30 * MINUTE
        events = [
            make_event("pauses", number, at + ms, "user", f"Remark {number} on the harbour crane.")
            for number, ms in enumerate((0, gap - 1, 2 * gap - 1))
        ]
        client.ingest_all(events)
        toc.settle()
        toc.wait_for([events[:2], events[2:]])

    def test_a_late_event_changes_its_own_run_only(self, own: tuple[Client, Toc]) -> None:
        client, toc = own
        client.ingest_all([*FERRY_MORNING, *FERRY_NOON])
        toc.settle()
        toc.wait_for([FERRY_MORNING, FERRY_NOON])
        toc.settle()
        morning, noon = toc.list_children("toc:day:2026-01-30")

        text = "The decisive error: the harbour master renamed the pier in November."
        late = make_event("ferry", 90, FERRY_MORNING[2].timestamp_ms + 1, "user", text)
        client.ingest(late)
        wait_until(
            lambda: toc.get_node(morning.node_id).version > morning.version,
            "the morning was written anew",
            SECONDS,
        )
        toc.settle()

        assert toc.list_children("toc:day:2026-01-30") == [toc.get_node(morning.node_id), noon]
        assert toc.bounds() == sorted(
            (node.start_time_ms, node.end_time_ms) for node in (morning, noon)
        )
        assert_every_bullet_leads_to_its_events(toc, [*FERRY_MORNING, *FERRY_NOON, late])

    def test_a_late_event_may_begin_a_segment_anew_or_join_two(
        self, own: tuple[Client, Toc]
    ) -> None:
        client, toc = own
        at = millis("2026-01-30 09:00")
        texts = ("The kiln runs hot.", "The kiln thermostat drifts.", "Replace the thermocouple.")
        one = [make_event("kiln", 1, at, "user", texts[0])]
        two = [make_event("kiln", 2, at + 40 * MINUTE, "user", texts[1])]
        client.ingest_all([*one, *two])
        toc.settle()
        toc.wait_for([one, two])

        between = make_event("kiln", 3, at + 20 * MINUTE, "user", texts[2])
        client.ingest(between)
        toc.settle()
        toc.wait_for([[*one, between, *two]])
        toc.settle()
        (joined,) = toc.segments()

        first = make_event("kiln", 4, at - 10 * MINUTE, "user", "When was the kiln last serviced?")
        client.ingest(first)
        toc.settle()
        toc.wait_for([[first, *one, between, *two]])
        toc.settle()
        (renamed,) = toc.segments()

        assert renamed.node_id != joined.node_id
        assert toc.find(joined.node_id) is None
        assert_every_bullet_leads_to_its_events(toc, [first, *one, between, *two])

    def test_a_late_event_can_leave_a_day_empty_and_the_day_goes(
        self, own: tuple[Client, Toc]
    ) -> None:
        client, toc = own
        after = [
            make_event("owl", 1, millis("2026-05-01 00:05"), "user", "The owl camera is blind.")
        ]
        client.ingest_all(after)
        toc.settle()
        toc.wait_for([after])
        toc.settle()
        assert toc.find("toc:day:2026-05-01") is not None

        before = make_event(
            "owl", 2, millis("2026-04-30 23:55"), "user", "Check the owl camera now."
        )
        client.ingest(before)
        toc.settle()
        toc.wait_for([[before, *after]])
        toc.settle()
        assert toc.find("toc:day:2026-05-01") is None
        assert [node.node_id for node in toc.walk()][:4] == [
            "toc:year:2026",
            "toc:month:2026:04",
            "toc:week:2026:W18",
            "toc:day:2026-04-30",
        ]

    def test_any_order_of_arrival_gives_the_same_tree(
        self, own: tuple[Client, Toc], recorded: Toc
    ) -> None:
        client, toc = own
        for event in RECORDED[: len(EVERYTHING)][::-3] + RECORDED[::2] + RECORDED:
            client.ingest(event)
        toc.settle()
        assert toc.tree() == recorded.tree()

    def test_a_restart_keeps_all_of_it(self, daemon: Daemon) -> None:
        with daemon.client() as client:
            client.ingest_all(EVERYTHING)
            toc = Toc(client)
            toc.settle()
            before = list(toc.walk())
        daemon.restart()
        with daemon.client() as client:
            toc = Toc(client)
            assert list(toc.walk()) == before
            toc.settle()
            assert list(toc.walk()) == before
            assert_every_bullet_leads_to_its_events(toc, EVERYTHING)

    def test_the_same_event_twice_changes_nothing(self, own: tuple[Client, Toc]) -> None:
        client, toc = own
        client.ingest_all(NIGHT)
        toc.settle()
        before = list(toc.walk())
        assert not any(outcome.created for outcome in client.ingest_all(NIGHT))
        toc.settle()
        assert list(toc.walk()) == before
