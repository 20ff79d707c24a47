"""Search over gRPC in a real daemon: what is found, where it stands, filters, pages, refusals."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_QUERY_CHARS,
    SearchMode,
)
from agent_memory.features.recall.model.search_filters import PLURALS
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.daemon_process import Daemon
from tests.memory_client import END_OF_TIME, message
from tests.search_client import (
    SECONDS,
    Search,
    assert_everything_is_found_once,
    connect,
    count_waiting,
    read_indexes,
    settle,
)
from tests.toc_conversations import EVERYTHING, MILL, NIGHT, OUTBOX, Toc, make_event, millis

MINUTE = 60_000
LANTERNS = millis("2023-02-01 08:00")
MIB = 1 << 20
GRPC_LIMIT = 4 * MIB  # of a client that sets none


def lantern(number: int, **more: Any) -> pb.Event:
    """One of the events that the filters are tried on; all of them speak of a lantern."""
    text = f"The lantern number {number} of the pier is {_COLOURS[number]} since the storm."
    fields: dict[str, Any] = {"session_id": "pier"} | more
    return message(f"lantern-{number}", LANTERNS + number * MINUTE, text, **fields)


_COLOURS = ("red", "green", "blue", "amber", "violet", "white")
TOOL = {"event_type": pb.EVENT_TYPE_TOOL_RESULT, "role": pb.EVENT_ROLE_TOOL}
ASSISTANT = {"event_type": pb.EVENT_TYPE_ASSISTANT_MESSAGE, "role": pb.EVENT_ROLE_ASSISTANT}
PIER = [
    lantern(0, metadata={"project": "atlas", "agent": "claude", "speaker": "Melanie"}),
    lantern(1, metadata={"project": "atlas", "agent": "codex"}, **ASSISTANT),
    lantern(2, metadata={"project": "orion", "agent": "claude", "tool_name": "Bash"}, **TOOL),
    lantern(3, session_id="quay", metadata={"project": "orion"}),
    lantern(4, session_id="quay", **ASSISTANT),
    lantern(5, session_id="k\u00f6 : side", metadata={"project": "a\u0301tlas \U0001f4a1"}),
]
ALL_LANTERNS = {event.event_id for event in PIER}


@pytest.fixture(scope="module")
def recorded(shared_daemon: Daemon) -> Daemon:
    """A daemon with conversations in its table of contents and in its index of words."""
    with shared_daemon.client() as client:
        client.ingest_all([*EVERYTHING, *PIER])
        toc = Toc(client)
        toc.settle()
        assert toc.run(OUTBOX).success
    return shared_daemon


@pytest.fixture
def search(recorded: Daemon) -> Iterator[Search]:
    with recorded.client() as client:
        yield Search(client)


@pytest.fixture
def toc(recorded: Daemon) -> Iterator[Toc]:
    with recorded.client() as client:
        yield Toc(client)


def lanterns(search: Search, **filters: Any) -> set[str]:
    """Which of the lanterns are found under these filters, each once."""
    found = search.ids("lantern", kinds=["event"], limit=100, **filters)
    assert len(found) == len(set(found))
    return set(found)


def assert_refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, error
    for word in words:
        assert word in error.details()


class TestHits:
    def test_an_event_is_found_by_its_words_and_says_where_it_stands(
        self, search: Search, toc: Toc
    ) -> None:
        hit = search("why does the sluice open at full speed", kinds=["event"]).hits[0]
        event = MILL[0]
        (segment,) = (node for node in toc.segments() if node.start_time_ms == event.timestamp_ms)
        assert (hit.kind, hit.id, hit.event_id) == ("event", "mill-0000", "mill-0000")
        assert (hit.session_id, hit.role) == ("mill", "user")
        assert (hit.text, hit.truncated) == (event.text, False)
        assert hit.timestamp_ms == event.timestamp_ms
        assert hit.node_id == segment.node_id
        assert (hit.title, hit.uri) == ("", "memory://events/mill-0000")
        assert hit.last_event_id == ""

    def test_a_segment_says_from_which_event_to_which_it_goes(
        self, search: Search, toc: Toc
    ) -> None:
        hit = search("backup of the museum at midnight", kinds=["segment"]).hits[0]
        (segment,) = toc.list_children("toc:day:2026-03-31")
        assert (hit.kind, hit.id, hit.node_id) == ("segment", segment.node_id, segment.node_id)
        assert (hit.event_id, hit.last_event_id) == (NIGHT[0].event_id, NIGHT[-1].event_id)
        assert (hit.title, hit.session_id) == (segment.title, "night")
        assert hit.timestamp_ms == segment.start_time_ms
        assert segment.summary in hit.text
        assert hit.grip_id in [grip for bullet in segment.bullets for grip in bullet.grip_ids]

    def test_a_grip_leads_to_its_event_and_its_segment(self, search: Search, toc: Toc) -> None:
        hits = search("photo archive folder name", kinds=["grip"]).hits
        assert hits
        for hit in hits:
            grip = toc.expand(hit.id).grip
            assert (hit.kind, hit.grip_id) == ("grip", hit.id)
            assert (hit.event_id, hit.last_event_id) == (grip.event_id_start, grip.event_id_end)
            assert (hit.node_id, hit.text) == (grip.toc_node_id, grip.excerpt)
            bullets = toc.get_node(hit.node_id).bullets
            assert hit.title in [each.text for each in bullets if hit.id in each.grip_ids]

    def test_an_event_and_a_grip_in_it_are_one_hit(self, search: Search) -> None:
        told: list[str] = []
        for hit in search("museum photo backup midnight", limit=100).hits:
            if hit.kind == "event":
                told.append(hit.id)
            elif hit.kind == "grip":
                told.append(hit.event_id)
        assert len(told) == len(set(told))

    def test_all_that_is_known_of_an_event_is_told(self, search: Search) -> None:
        hit = search("red lantern", kinds=["event"]).hits[0]
        assert hit.id == "lantern-0"
        assert (hit.project, hit.agent, hit.speaker) == ("atlas", "claude", "Melanie")
        (hit,) = search("lantern", role="tool", kinds=["event"]).hits
        assert (hit.id, hit.tool_name) == ("lantern-2", "Bash")
        assert (hit.namespace, hit.domain, hit.spec, hit.status) == ("", "", "", "")
        assert list(hit.tags) == []

    def test_scores_fall_from_hit_to_hit_and_are_explained(self, search: Search) -> None:
        hits = search("the lantern of the pier", limit=100).hits
        assert all(0 < hit.score <= 1 for hit in hits)
        assert all(one.score >= other.score - 1e-4 for one, other in pairwise(hits))
        assert all(hit.score_parts for hit in hits)

    def test_the_same_question_has_the_same_answer(self, search: Search) -> None:
        assert search("pier lantern storm") == search("pier lantern storm")

    def test_a_time_in_the_question_prefers_what_is_from_then(self, search: Search) -> None:
        assert search.ids("pier in February 2023", kinds=["event"])[0] in ALL_LANTERNS
        assert search.ids("pier in January 2026", kinds=["event"])[0].startswith("ferry-")

    def test_without_words_in_common_nothing_is_found(self, search: Search) -> None:
        answer = search("xylophone quixotic", mode="bm25")
        assert (list(answer.hits), answer.total) == ([], 0)
        assert not answer.HasField("continuation_token")

    @pytest.mark.parametrize("query", ["?!", "\x00", "the", "\U0001f4a1", '"AND" (OR) +-~*:^[]{}'])
    def test_odd_queries_have_answers(self, search: Search, query: str) -> None:
        assert search(query).total >= 0


class TestListing:
    @pytest.mark.parametrize("query", ["", "  ", "all", " ALL "])
    def test_without_a_query_everything_is_listed_newest_first(
        self, search: Search, query: str
    ) -> None:
        pages = list(search.pages(query, kinds=list(DocumentKind), limit=7))
        hits = [hit for page in pages for hit in page.hits]
        times = [hit.timestamp_ms for hit in hits]
        assert times == sorted(times, reverse=True)
        assert {hit.kind for hit in hits} == {"event", "segment", "grip"}
        assert {page.total for page in pages} == {len(hits)}
        assert all(page.certain for page in pages)

    def test_it_holds_everything_once(self, search: Search, toc: Toc) -> None:
        assert_everything_is_found_once(search, toc, [*EVERYTHING, *PIER])

    def test_only_memories_are_listed_unless_kinds_are_named(self, search: Search) -> None:
        answer = search()
        assert (list(answer.hits), answer.certain) == ([], True)

    def test_filters_hold(self, search: Search) -> None:
        assert {hit.id for hit in search.all(kinds=["event"], project="atlas")} == {
            "lantern-0",
            "lantern-1",
        }


class TestFilters:
    @pytest.mark.parametrize(
        ("filters", "numbers"),
        [
            ({}, {0, 1, 2, 3, 4, 5}),
            ({"project": "atlas"}, {0, 1}),
            ({"project": "orion"}, {2, 3}),
            ({"project": "a\u0301tlas \U0001f4a1"}, {5}),
            ({"project": "Atlas"}, set()),
            ({"agent": "claude"}, {0, 2}),
            ({"agent": "claude", "project": "orion"}, {2}),
            ({"session_id": "quay"}, {3, 4}),
            ({"session_id": "k\u00f6 : side"}, {5}),
            ({"role": "user"}, {0, 3, 5}),
            ({"role": "assistant"}, {1, 4}),
            ({"role": "tool"}, {2}),
            ({"role": "system"}, set()),
            ({"from_timestamp_ms": LANTERNS + 2 * MINUTE}, {2, 3, 4, 5}),
            ({"to_timestamp_ms": LANTERNS + 2 * MINUTE}, {0, 1, 2}),
            (
                {
                    "from_timestamp_ms": LANTERNS + MINUTE,
                    "to_timestamp_ms": LANTERNS + MINUTE,
                },
                {1},
            ),
            ({"from_timestamp_ms": 0, "to_timestamp_ms": 0}, set()),
            ({"namespace": "decisions"}, set()),
            ({"domain": "project"}, set()),
            ({"domain": "project:atlas"}, set()),
            ({"tags": ["pier"]}, set()),
            ({"spec": "x"}, set()),
            ({"statuses": ["active"]}, set()),
            ({"min_score": 1.0}, set()),
        ],
    )
    @pytest.mark.parametrize("mode", ["bm25", "hybrid"])
    def test_only_what_they_admit_is_found(
        self, search: Search, mode: str, filters: dict[str, Any], numbers: set[int]
    ) -> None:
        assert lanterns(search, mode=mode, **filters) == {f"lantern-{each}" for each in numbers}

    def test_each_kind_is_found_by_itself(self, search: Search) -> None:
        for kind in DocumentKind:
            found = {hit.kind for hit in search("ferry", kinds=[kind], limit=100).hits}
            assert found == ({kind} if kind in {"event", "segment", "grip"} else set())
        both = {hit.kind for hit in search("ferry", kinds=["segment", "grip"]).hits}
        assert both == {"segment", "grip"}

    @pytest.mark.parametrize("filters", [{"project": "atlas"}, {"agent": "claude"}])
    def test_segments_and_grips_belong_where_their_events_do(
        self, search: Search, filters: dict[str, str]
    ) -> None:
        hits = search("lantern", kinds=["segment", "grip"], limit=100, **filters).hits
        assert {hit.kind for hit in hits} == {"segment", "grip"}
        for hit in hits:
            assert {name: getattr(hit, name) for name in filters} == filters

    def test_what_scores_less_than_asked_is_left_out(self, search: Search) -> None:
        every = search("lantern storm", limit=100).hits
        least = every[len(every) // 2].score
        stored = search("lantern storm", limit=100, min_score=least).hits
        assert 0 < len(stored) < len(every)
        assert [hit.id for hit in stored] == [hit.id for hit in every if hit.score >= least]


class TestPages:
    def test_tokens_lead_through_everything_once(self, search: Search) -> None:
        at_once = search.ids("ferry pier lantern", limit=100)
        pages = list(search.pages("ferry pier lantern", limit=3))
        assert [hit.id for page in pages for hit in page.hits] == at_once
        assert all(len(page.hits) == 3 for page in pages[:-1])
        assert {page.total for page in pages} == {len(at_once)}

    def test_zero_is_the_default_and_more_than_the_most_is_the_most(self, daemon: Daemon) -> None:
        with daemon.client() as client:
            search = Search(client)
            client.ingest_all(
                message(f"e-{number}", 1_000 + number, f"herring {number}") for number in range(120)
            )
            for query in ("", "herring"):
                assert len(search.ids(query, kinds=["event"], limit=0)) == DEFAULT_LIMIT == 10
                assert len(search.ids(query, kinds=["event"], limit=1)) == 1
            assert len(search.ids("", kinds=["event"], limit=100_000)) == MAX_LIMIT == 100
            assert len(search.ids("herring", limit=100_000)) <= MAX_LIMIT

    def test_beyond_the_end_is_nothing(self, search: Search) -> None:
        for query in ("", "lantern"):
            answer = search(query, continuation_token=str(9_999))
            assert list(answer.hits) == []
            assert not answer.HasField("continuation_token")


class TestRefusals:
    def test_an_unknown_kind_or_mode_names_the_choices(self, search: Search) -> None:
        assert_refused(lambda: search("x", kinds=["event", "evnts"]), "'evnts'", *PLURALS)
        assert_refused(lambda: search("x", kinds=[""]), *PLURALS)
        assert_refused(lambda: search("x", mode="fuzzy"), "'fuzzy'", *SearchMode)
        assert_refused(lambda: search("x", mode=" "), *SearchMode)

    @pytest.mark.parametrize("token", ["", "x", "-1", "1.5", " 1", "1" * 10, "\u00b2"])
    def test_a_token_that_is_none(self, search: Search, token: str) -> None:
        assert_refused(lambda: search("x", continuation_token=token), "continuation_token")

    @pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
    def test_a_score_that_is_none(self, search: Search, score: float) -> None:
        assert_refused(lambda: search("x", min_score=score), "0 to 1")

    def test_a_negative_limit(self, search: Search) -> None:
        assert_refused(lambda: search("x", limit=-1), "negative")

    def test_times_that_are_none_or_reversed(self, search: Search) -> None:
        assert_refused(
            lambda: search("x", from_timestamp_ms=2, to_timestamp_ms=1), "before it begins"
        )
        assert_refused(lambda: search("x", from_timestamp_ms=-1), "from_timestamp_ms")
        assert_refused(lambda: search("x", to_timestamp_ms=END_OF_TIME + 1), "to_timestamp_ms")

    def test_a_query_that_is_too_long(self, search: Search) -> None:
        longest = "word " * (MAX_QUERY_CHARS // 5)
        search(longest)
        assert_refused(lambda: search(longest + "x"), "10,001", "10,000")

    def test_too_many_tags(self, search: Search) -> None:
        assert_refused(lambda: search("x", tags=[str(n) for n in range(101)]), "tags")

    def test_bytes_that_are_no_request(self, recorded: Daemon) -> None:
        with recorded.client() as client:
            assert_refused(lambda: client.raw("Search", b"\xff\xff\xff"))


class TestWarnings:
    def test_without_an_embedder_words_are_searched_and_it_is_said(self, search: Search) -> None:
        for mode in ("", "hybrid", "vector"):
            answer = search("lantern", mode=mode)
            assert answer.hits
            assert "words alone" in answer.warning
            assert "embedder.provider" in answer.warning

    def test_who_asks_for_words_alone_or_for_all_is_not_warned(self, search: Search) -> None:
        assert not search("lantern", mode="bm25").HasField("warning")
        assert not search("").HasField("warning")


class TestFreshness:
    def test_an_event_is_found_by_the_very_next_search(self, recorded: Daemon, name: str) -> None:
        with recorded.client() as client:
            search = Search(client)
            for number in range(50):
                word = f"zq{name[:8]}{number}"
                event = message(f"{name}-{number}", LANTERNS, f"{word} was said", session_id=name)
                client.ingest(event)
                assert search.ids(word, kinds=["event"], mode="bm25")[0] == event.event_id
                assert search.ids(word, kinds=["event"], session_id=name)[0] == event.event_id
                assert search.ids(word, kinds=["event"], session_id="another") == []
            assert len(search.all(kinds=["event"], session_id=name)) == 50

    def test_a_paused_job_hides_nothing(self, daemon: Daemon) -> None:
        with daemon.client() as client:
            toc, search = Toc(client), Search(client)
            assert toc.pause(OUTBOX).success
            client.ingest_all(EVERYTHING)
            toc.settle()
            assert_everything_is_found_once(search, toc, EVERYTHING)
            before = search.ids("the ferry and the mill", limit=100)
            assert toc.resume(OUTBOX).success
            assert toc.run(OUTBOX).success
            assert_everything_is_found_once(search, toc, EVERYTHING)
            assert set(search.ids("the ferry and the mill", limit=100)) == set(before)


class TestLargeEvents:
    def test_a_text_of_a_mebibyte_is_found_by_its_beginning_and_cut(
        self, recorded: Daemon, name: str
    ) -> None:
        with recorded.client() as client:
            text = f"zq{name} " + "walrus " * (MIB // 7 - 9)
            client.ingest(message(name, LANTERNS, text, session_id=name))
            for query in (f"zq{name}", ""):
                (hit,) = Search(client)(query, kinds=["event"], session_id=name).hits
                assert hit.truncated
                assert 1_000 < len(hit.text) < 100_000
                assert text.startswith(hit.text)

    @pytest.mark.parametrize("filler", ["x", "\u6f22", "\U0001f40b"])
    def test_a_full_page_of_large_texts_fits_a_message(self, daemon: Daemon, filler: str) -> None:
        with daemon.client() as client:
            size = len(filler.encode())
            events = [
                message(f"large-{n}", LANTERNS + n, f"narwhal zq{n} {filler * (100_000 // size)}")
                for n in range(100)
            ]
            for start in range(0, 100, 20):
                client.ingest_all(events[start : start + 20])
            answer = Search(client)("narwhal", kinds=["event"], limit=100)
            assert len(answer.hits) > 20
            listed = Search(client)("", kinds=["event"], limit=100)
            assert len(listed.hits) == 100
            assert all(hit.truncated for hit in listed.hits)
            assert listed.ByteSize() < GRPC_LIMIT


@pytest.fixture
def embedding() -> Iterator[Home]:
    """A daemon of the test's own, that embeds."""
    with Home(embedder="bge") as found:
        found.serve()
        yield found


class TestVectors:
    def test_what_waits_no_more_is_found_by_its_meaning(self, embedding: Home) -> None:
        with connect(embedding) as client:
            search, toc = Search(client), Toc(client)
            client.ingest_all([*EVERYTHING, *PIER])
            settle(embedding, toc)
            for mode in ("vector", "hybrid"):
                answer = search("bikes have no price online", mode=mode, kinds=["event"], limit=5)
                assert not answer.HasField("warning")
                assert "ferry-0010" in [hit.id for hit in answer.hits]
                assert all("meaning" in hit.score_parts for hit in answer.hits)
            assert search.ids("bikes price online", mode="bm25", kinds=["event"]) == []

            now = time.time_ns() // 1_000_000
            client.ingest(message("live", now, "Our cat sleeps on the warm radiator all day."))
            wait_until(lambda: count_waiting(embedding) == 0, "the event is embedded", SECONDS)
            assert search.ids("feline napping", mode="vector", kinds=["event"])[0] == "live"

            for filters, numbers in (
                ({"project": "atlas"}, {0, 1}),
                ({"session_id": "quay"}, {3, 4}),
                ({"agent": "claude", "role": "tool"}, {2}),
                ({"to_timestamp_ms": LANTERNS + MINUTE, "from_timestamp_ms": LANTERNS}, {0, 1}),
                ({"tags": ["none"]}, set()),
            ):
                found = search.ids("light", mode="vector", kinds=["event"], limit=100, **filters)
                assert sorted(found) == sorted(f"lantern-{number}" for number in numbers)

            total = assert_everything_is_found_once(
                search, toc, [*EVERYTHING, *PIER, message("live", now)]
            )
            stats = read_indexes(embedding)
            assert (stats["words"]["documents"], stats["vectors"]["documents"]) == (total, total)

    @pytest.mark.soak
    def test_live_events_overtake_a_backlog(self, embedding: Home) -> None:
        with connect(embedding) as client:
            search = Search(client)
            for start in range(0, 3_000, 500):
                client.ingest_all(
                    make_event(
                        f"old-{n % 7}", n, LANTERNS + n * MINUTE, "user", f"Old note {n} {n * 7}"
                    )
                    for n in range(start, start + 500)
                )
            wait_until(
                lambda: read_indexes(embedding)["vectors_waiting"] > 1_000,
                "a backlog waits",
                SECONDS,
            )
            now = time.time_ns() // 1_000_000
            client.ingest(message("live", now, "The kettle whistles.", session_id="live"))
            wait_until(
                lambda: search.ids("tea kettle", mode="vector", session_id="live") == ["live"],
                "the live event is embedded",
                SECONDS,
            )
            assert read_indexes(embedding)["vectors_waiting"] > 0
            embedding.run("memory-daemon", "stop")

    @pytest.mark.soak
    def test_the_embedder_may_be_taken_away_and_come_back(self, embedding: Home) -> None:
        with connect(embedding) as client:
            client.ingest_all(NIGHT)
            settle(embedding, Toc(client))
            before = read_indexes(embedding)["vectors"]["documents"]
        embedding.stop()
        embedding.settings["embedder.provider"] = "none"
        embedding.serve()
        assert read_indexes(embedding)["vectors"] is None
        late = message("late", NIGHT[-1].timestamp_ms + 1, "A goat ate it.", session_id="night")
        with connect(embedding) as client:
            client.ingest(late)
            settle(embedding, Toc(client))
            answer = Search(client)("goat")
            assert answer.hits[0].event_id == "late"
            assert "words alone" in answer.warning
        embedding.stop()
        embedding.settings["embedder.provider"] = "bge"
        embedding.serve()
        with connect(embedding) as client:
            assert Search(client).ids("goat", mode="bm25", kinds=["event"])[0] == "late"
            settle(embedding, Toc(client))
            total = assert_everything_is_found_once(Search(client), Toc(client), [*NIGHT, late])
            assert read_indexes(embedding)["vectors"]["documents"] == total > before
            assert Search(client).ids("farm animal", mode="vector", kinds=["event"])[0] == "late"


Damage = Callable[[Path], object]


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


def _only(folder: Path, pattern: str) -> Path:
    (found,) = sorted(folder.glob(pattern))
    return found


def _largest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_size)


def _other_model(index: Path) -> None:
    marker = index / "vectors/model.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"model": "another"}))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _remove_all(index: Path) -> None:
    for path in sorted(index.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


# Each also of the other index: a start takes longer than what it looks at.
DAMAGE: dict[str, tuple[Damage, Damage]] = {
    "a vector, a posting": (
        lambda index: _flip(_only(index, "vectors/vectors-*.f16"), 100),
        lambda index: _flip(_largest(index, "lexical/*.idx"), 10),
    ),
    "the last row, a stored field": (
        lambda index: _flip(_only(index, "vectors/rows-*.log"), -1),
        lambda index: _flip(_largest(index, "lexical/*.store"), 10),
    ),
    "the length of rows, a footer": (
        lambda index: _flip(_only(index, "vectors/rows-*.log"), 3),
        lambda index: _flip(_largest(index, "lexical/*.fast"), -1),
    ),
    "no rows, no postings": (
        lambda index: _only(index, "vectors/rows-*.log").unlink(),
        lambda index: _largest(index, "lexical/*.idx").unlink(),
    ),
    "half the rows, no list of files": (
        lambda index: _cut(_only(index, "vectors/rows-*.log")),
        lambda index: (index / "lexical/meta.json").unlink(),
    ),
    "a marker that is none, a list that is none": (
        lambda index: (index / "vectors/model.json").write_bytes(b"\xff{"),
        lambda index: (index / "lexical/meta.json").write_text("{"),
    ),
    "nothing left": (_remove_all, lambda _: None),
}


@pytest.fixture(scope="module")
def damaged() -> Iterator[Home]:
    """A daemon whose indexes the tests damage, one after the other."""
    with Home(embedder="bge") as home:
        home.serve()
        with connect(home) as client:
            client.ingest_all(NIGHT)
            settle(home, Toc(client))
        yield home


def _assert_healed(home: Home) -> None:
    with connect(home) as client:
        search, toc = Search(client), Toc(client)
        wait_until(
            lambda: (
                read_indexes(home)["words"]["documents"]
                == read_indexes(home)["vectors"]["documents"]
                > 0
            ),
            "both indexes hold the same",
        )
        settle(home, toc)
        total = assert_everything_is_found_once(search, toc, NIGHT)
        stats = read_indexes(home)
        assert (stats["words"]["documents"], stats["vectors"]["documents"]) == (total, total)
        (hit, *_) = search("exhibition copy at twelve o'clock", mode="vector").hits
        assert hit.session_id == "night"
        assert not search("museum").HasField("warning")
        assert search.ids("museum", mode="bm25", kinds=["event"])[0] == NIGHT[0].event_id


@pytest.mark.parametrize(
    "name",
    [
        name if not number else pytest.param(name, marks=pytest.mark.soak)
        for number, name in enumerate(DAMAGE)
    ],
)
def test_a_damaged_index_heals_at_the_next_start(damaged: Home, name: str) -> None:
    damaged.stop()
    for damage in DAMAGE[name]:
        damage(damaged.data / "index")
    damaged.serve()
    _assert_healed(damaged)


def test_while_vectors_are_made_again_words_answer(damaged: Home) -> None:
    damaged.stop()
    _other_model(damaged.data / "index")
    damaged.serve()
    with connect(damaged) as client:
        assert Search(client).ids("museum", kinds=["event"])[0] == NIGHT[0].event_id
    _assert_healed(damaged)


@pytest.mark.soak
def test_without_an_embedder_nobody_minds_damaged_vectors(damaged: Home) -> None:
    damaged.stop()
    (damaged.data / "index/vectors/model.json").write_bytes(b"\xff{")
    damaged.settings["embedder.provider"] = "none"
    try:
        damaged.serve()
        with connect(damaged) as client:
            assert Search(client).ids("museum", mode="bm25")
    finally:
        damaged.stop()
        damaged.settings["embedder.provider"] = "bge"
    damaged.serve()
    _assert_healed(damaged)
