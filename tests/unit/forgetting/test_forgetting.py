"""Forgetting as a service: what goes, what stays, what is told, what a broken-off run leaves."""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rocksdict
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.forgetting.model import forgetting
from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Selection
from agent_memory.features.forgetting.services.forgetting import CONTENTS, LISTING, PHASES, REMOVING
from agent_memory.features.index.model import documents, term_vectors
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.lessons.model.lessons import LessonVerdict, VerdictState
from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model.machine import (
    Answered,
    Prompted,
    Recorded,
    RunFinished,
    ToolUsed,
)
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.summaries import (
    Dialogue,
    Digest,
    DigestBullet,
    PeriodSummary,
    Point,
    Summary,
    Support,
)
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.features.toc.ports import Summarizer
from agent_memory.kernel.errors import Cancelled, InvalidInput, NotFound
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.documents import scratch
from tests.contract.stores import TIMEOUT, commit, everything
from tests.embedders import HashingEmbedder
from tests.forgetting_parts import ForgettingHarness, ManualClock, find_files, open_harness
from tests.recall_parts import DAY, HOUR, MINUTE, NOW, list_texts, make_dialogue, make_event
from tests.run_samples import RESIZED, build_events, call

TOLD = "The vault opens with marigold-abacus-fjord, we decided."
WORDS = b"marigold-abacus-fjord"
HARBOUR = make_dialogue(
    "How do we paint the crane at the harbour?",
    "We decided to paint the crane green.",
    TOLD,
    "Good. The harbour master agreed to the green crane.",
    begin=NOW - 3 * DAY,
    session="harbour",
)
DOOMED = HARBOUR[2]
MILL = make_dialogue(
    "The mill stands still since the storm.",
    "We decided to mend the mill on Friday.",
    begin=NOW - 3 * DAY + HOUR,
    session="mill",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as found:
        yield found


@pytest.fixture
def keeping(folder: Path) -> Iterator[ForgettingHarness]:
    with open_harness(folder, rocks=True, embedder=HashingEmbedder()) as found:
        yield found


def versions(keeping: ForgettingHarness) -> list[TocNode]:
    """All versions of all nodes, present and kept."""
    rows = everything(keeping.parts.store, families.TOC_NODES)
    names = sorted({NodeId(key.decode().split(":v")[0]) for key, _ in rows})
    toc = keeping.parts.toc
    present = [node for node in toc.get_nodes(names) if node is not None]
    return [*present, *(each for name in names for each in toc.list_versions(name, limit=99))]


def holding(keeping: ForgettingHarness, words: bytes) -> list[str]:
    """The families in which some row holds the words."""
    return [
        family
        for family in families.ALL
        if any(words in part for row in everything(keeping.parts.store, family) for part in row)
    ]


def tables_of(path: Path) -> list[dict[str, Any]]:
    """RocksDB's own account of its files."""
    names = rocksdict.Rdict.list_cf(str(path))
    options = {name: rocksdict.Options(raw_mode=True) for name in names if name != "default"}
    database = rocksdict.Rdict(
        str(path), options=rocksdict.Options(raw_mode=True), column_families=options
    )
    found: list[dict[str, Any]] = database.live_files()
    database.close()
    return found


class TestSelection:
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"event_id": "a", "session_id": "b"},
            {"event_id": "a", "since": 1, "until": 2},
            {"since": 1},
            {"until": 1},
            {"since": 2, "until": 1},
            {"since": -1, "until": 1},
        ],
    )
    def test_it_names_one_thing(self, fields: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            Selection(**fields)  # type: ignore[arg-type]


class TestNeedles:
    @given(st.text(max_size=400), st.dictionaries(st.text(max_size=5), st.text(max_size=80)))
    def test_each_stands_in_what_is_stored(self, text: str, metadata: dict[str, str]) -> None:
        event = replace(make_event("", NOW), text=text, metadata=metadata)
        stored = [part.encode() for part in (text, *metadata.values())]
        for needle in forgetting.extract_needles(event):
            assert len(needle) >= forgetting.LEAST_BYTES
            assert any(needle in part for part in stored)

    def test_a_short_text_is_one_as_a_whole_and_a_shorter_one_is_none(self) -> None:
        assert forgetting.extract_needles(make_event("hunter2")) == {b"hunter2"}
        assert forgetting.extract_needles(make_event("hi you", cwd="/x")) == {b"hi you"}
        assert forgetting.extract_needles(make_event("ok", cwd="/x")) == frozenset()

    def test_those_of_a_long_text_are_few_and_from_all_of_it(self) -> None:
        found = forgetting.extract_needles(
            make_event(" ".join(f"word{n:04}" for n in range(2_000)))
        )
        numbers = sorted(int(re.findall(rb"\d{4}", each)[0]) for each in found)
        assert len(found) <= forgetting.WINDOWS
        assert numbers[0] < 400 < 1_600 < numbers[-1]

    def test_text_without_blanks_has_them_too(self) -> None:
        assert forgetting.extract_needles(make_event("日本語のテキストには空白がありません。" * 20))
        assert forgetting.extract_needles(make_event("A" * 10_000))


class TestAnEvent:
    def test_nothing_of_it_is_left_anywhere(self, keeping: ForgettingHarness, folder: Path) -> None:
        keeping.take_in(*HARBOUR, *MILL)
        assert find_files(folder, WORDS)
        assert "toc_nodes" in holding(keeping, WORDS)

        report = keeping.forget(event_id=DOOMED.event_id)

        assert report.proof.found_in == ()
        assert report.events == 1
        assert report.segments == 1
        assert report.grips > 0
        assert report.proof.needles > 0
        assert report.proof.files > 0
        assert report.proof.size_bytes > 0
        assert find_files(folder, WORDS) == []
        assert find_files(folder, b"marigold") == []
        assert holding(keeping, WORDS) == []
        assert not any(WORDS.decode() in text for text in list_texts(keeping.parts.ask("marigold")))

    def test_no_context_is_kept_that_a_session_was_given(
        self, keeping: ForgettingHarness, folder: Path
    ) -> None:
        keeping.take_in(*HARBOUR)
        saved = folder / "last-contexts"
        saved.mkdir()
        (saved / "0123abcd.json").write_text(f'{{"text": "{WORDS.decode()}"}}')
        assert keeping.forget(event_id=DOOMED.event_id).proof.found_in == ()
        assert list(saved.iterdir()) == []

    def test_its_term_vector_is_in_no_file(self, keeping: ForgettingHarness, folder: Path) -> None:
        (document,) = documents.from_event(DOOMED)
        hashes = term_vectors.build(document).hashes.tobytes()
        keeping.take_in(*HARBOUR, *MILL)
        keeping.forgetting.purging.store.compact(
            families.TERM_VECTORS
        )  # into a table, which is not compressed
        assert any(name.endswith(".sst") for name in find_files(folder, hashes))
        keeping.forget(event_id=DOOMED.event_id)
        assert find_files(folder, hashes) == []
        stayed = [documents.event_owner(event.event_id) for event in MILL]
        found = keeping.parts.terms.get([document.owner, *stayed])
        assert [each is None for each in found] == [True, False, False]

    def test_its_id_is_taken_for_ever(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR)
        keeping.forget(event_id=DOOMED.event_id)
        assert keeping.parts.log.get(DOOMED.event_id) is None
        assert keeping.parts.log.append([DOOMED]).result(TIMEOUT) == [False]
        assert keeping.parts.log.get(DOOMED.event_id) is None
        assert keeping.forgetting.preview(Selection(event_id=DOOMED.event_id)).events == 0

    def test_a_key_of_it_is_in_no_file_but_its_tombstone(
        self, keeping: ForgettingHarness, folder: Path
    ) -> None:
        keeping.take_in(*HARBOUR, *MILL)
        name = DOOMED.event_id.encode()
        keeping.forget(event_id=DOOMED.event_id)
        keeping.work()
        keeping.parts.outbox.trim(keeping.parts.log.watermark())
        keeping.forget(session_id="mill")  # compacts once more
        for family in families.ALL:
            rows = everything(keeping.parts.store, family)
            keys = [key for row in rows for key in row if name in key]
            assert keys == ([b"eid:" + name] if family == families.EVENT_IDS else []), family
        for path in (folder / "db").iterdir():
            content = path.read_bytes()
            assert content.count(name) == content.count(b"eid:" + name), path

    def test_no_file_of_the_store_holds_more_than_can_be_read(self, folder: Path) -> None:
        """Blocks are compressed, so bytes alone would not show what was deleted or overwritten."""
        with open_harness(folder, rocks=True) as keeping:
            keeping.take_in(*HARBOUR, *MILL)
            keeping.forget(event_id=DOOMED.event_id)
            rows = sum(len(everything(keeping.parts.store, name)) for name in families.ALL)
        tables = tables_of(folder / "db")
        assert sum(table["num_entries"] for table in tables) == rows
        assert sum(table["num_deletions"] for table in tables) == 0

    def test_the_other_events_are_as_they_were(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR, *MILL)
        mill = [node for node in versions(keeping) if "mill" in node.summary.lower()]
        keeping.forget(event_id=DOOMED.event_id)
        keeping.work()
        page = keeping.parts.log.list_between(Millis(0), Millis(NOW), after=None, limit=99)
        staying = [event for event in (*HARBOUR, *MILL) if event is not DOOMED]
        assert list(page.events) == sorted(staying, key=lambda event: event.position.order)
        assert [node for node in versions(keeping) if node in mill and node.child_ids == ()]
        assert "We decided to paint the crane green." in list_texts(
            keeping.parts.ask("paint the crane")
        )
        embedding = keeping.parts.indexes.embedding
        assert embedding is not None
        assert embedding.vectors.stats().documents == keeping.parts.lexical.stats().documents

    def test_what_another_event_says_too_is_no_trace(self, keeping: ForgettingHarness) -> None:
        again = make_event(TOLD, NOW - HOUR, session="later")
        keeping.take_in(*HARBOUR, again)
        report = keeping.forget(event_id=DOOMED.event_id)
        assert report.proof.found_in == ()
        assert again.text in list_texts(keeping.parts.ask("marigold abacus"))
        assert keeping.forget(event_id=again.event_id).proof.found_in == ()
        assert holding(keeping, WORDS) == []

    def test_nor_is_what_is_made_from_one_that_says_it_a_little_otherwise(
        self, keeping: ForgettingHarness
    ) -> None:
        again = make_event(
            "so THE vault opens\nwith  Marigold-abacus-fjord, we decided", NOW - HOUR
        )
        keeping.take_in(*HARBOUR, again)
        commit(
            keeping.parts.store,
            Batch((Put(families.ACCESS_KEYS, b"key:x", b"\x01The vault opens with marigold"),)),
        )
        assert keeping.forget(event_id=DOOMED.event_id).proof.found_in == ()

    def test_what_is_left_of_it_elsewhere_is_told(
        self, keeping: ForgettingHarness, folder: Path
    ) -> None:
        keeping.take_in(*HARBOUR)
        (folder / "logs").mkdir()
        (folder / "logs" / "agent.log").write_bytes(b"padding " * 1_000_000 + TOLD.encode())
        row = Put(families.ACCESS_KEYS, b"key:x", b"\x01" + TOLD.encode())
        commit(keeping.parts.store, Batch((row,)))
        report = keeping.forget(event_id=DOOMED.event_id)
        assert "access_keys" in report.proof.found_in
        assert f"{folder.name}/logs/agent.log" in report.proof.found_in

    def test_its_metadata_goes_too(self, keeping: ForgettingHarness, folder: Path) -> None:
        event = make_event(
            "What now?", NOW - DAY, cwd="/home/marigold/fjord", speaker="Marigold Fjord"
        )
        keeping.take_in(event, make_event("Nothing.", NOW - DAY + 1, role="assistant"))
        assert keeping.forget(event_id=event.event_id).proof.found_in == ()
        assert find_files(folder, b"arigold") == []
        assert holding(keeping, b"arigold") == []

    def test_old_versions_that_knew_of_it_go_and_older_ones_stay(self, folder: Path) -> None:
        clock = ManualClock(HARBOUR[1].at_ms + MINUTE)
        with open_harness(folder, rocks=True, clock=clock) as keeping:
            for events in (HARBOUR[:2], HARBOUR[2:3], HARBOUR[3:]):
                clock.at_ms = events[-1].at_ms + HOUR
                keeping.take_in(*events)
            knew = [node for node in versions(keeping) if WORDS.decode() in str(node)]
            older = [node for node in versions(keeping) if node.end_ms < DOOMED.at_ms]
            assert {node.level for node in knew} > {older[0].level}
            keeping.forget(event_id=DOOMED.event_id)
            assert holding(keeping, WORDS) == []
            assert [node for node in versions(keeping) if node in older] == older

    def test_one_that_is_in_no_segment_yet_is_forgotten_as_well(
        self, keeping: ForgettingHarness
    ) -> None:
        keeping.parts.keep(*HARBOUR)
        assert keeping.forget(event_id=DOOMED.event_id).proof.found_in == ()
        keeping.work()
        assert holding(keeping, WORDS) == []
        assert len(keeping.parts.log.list_session(SessionId("harbour"), after=None, limit=9).events)

    def test_an_unknown_one_changes_nothing(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR)
        before = versions(keeping)
        report = keeping.forget(event_id=EventId("nobody"))
        assert (report.events, report.nodes, report.proof.files) == (0, 0, 0)
        assert versions(keeping) == before


class TestASession:
    def test_it_vanishes_with_the_periods_that_it_alone_was_in(
        self, keeping: ForgettingHarness
    ) -> None:
        early = make_dialogue("Once there was a lighthouse.", "Yes.", begin=NOW - 300 * DAY)
        keeping.take_in(*early, *HARBOUR)
        names = keeping.parts.toc.list_ids("toc:", after=None, limit=99)
        report = keeping.forget(session_id=SessionId("talk"))
        assert report.events == 2
        left = keeping.parts.toc.list_ids("toc:", after=None, limit=99)
        assert len(left) < len(names)
        assert {node.node_id for node in versions(keeping)} == set(left)
        assert holding(keeping, b"lighthouse") == []

    def test_everything_can_be_forgotten(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR, *MILL)
        preview = keeping.forgetting.preview(Selection(since=Millis(0), until=NOW))
        assert (preview.events, preview.sessions) == (6, 2)
        assert (preview.first_ms, preview.last_ms) == (HARBOUR[0].at_ms, MILL[-1].at_ms)
        keeping.forget(since=Millis(0), until=NOW)
        for family in ("events", "session_events", "segments", "grips", "toc_nodes", "toc_latest"):
            assert everything(keeping.parts.store, family) == [], family
        assert len(everything(keeping.parts.store, families.EVENT_IDS)) == 6


class TestARun:
    def test_nothing_of_it_is_left_anywhere_and_the_others_are_as_they_were(
        self, keeping: ForgettingHarness, folder: Path
    ) -> None:
        """Its id stays, in the ids that are taken for ever."""
        name, at = "6f1c2a0e-6d0b-4c4b-9d7a-0f5e3b2a1c9d", NOW - HOUR
        asked = call("call_abcdefgh", "run_command", '{"command": "open marigold-abacus-fjord"}')
        doomed: Sequence[Recorded] = (
            Prompted("Open the vault with marigold-abacus-fjord"),
            Answered(content="", calls=(asked,)),
            ToolUsed(
                call=asked, outcome=Outcome.CANCELLED, text="stopped at marigold-abacus-fjord"
            ),
            RunFinished(outcome=Outcome.CANCELLED, error="marigold-abacus-fjord was too slow"),
        )
        keeping.take_in(
            *build_events("s", name, doomed, start=at),
            *build_events("s", "other", RESIZED, start=at + MINUTE),
        )
        learning = keeping.learning
        learning.keep_up(lambda: None)
        assert "knowledge" in holding(keeping, WORDS)
        report = keeping.forget(since=at, until=at + MINUTE - 1)
        assert (report.events, report.proof.found_in) == (3, ())
        assert report.proof.needles > 0
        assert holding(keeping, WORDS) == []
        keeping.parts.close()
        assert find_files(folder, WORDS) == []
        (episode,) = learning.knowledge.list_page(Episode, limit=9, offset=0)[0]
        assert episode.summary.startswith("Why does the thumbnail")


class TestALesson:
    def test_it_goes_with_its_event_and_so_does_what_was_said_of_it(
        self, keeping: ForgettingHarness, folder: Path
    ) -> None:
        rule = "From now on never write marigold-abacus-fjord into the log of the harbour."
        keeping.take_in(*make_dialogue("Mend the log.", "Done.", rule, session="rules"), *MILL)
        keeping.lessons.keep_up(lambda: None)
        (lesson,) = keeping.lessons.lessons.list_session(SessionId("rules"))
        assert WORDS.decode() in lesson.text
        keeping.lessons.lessons.set_verdict(
            LessonVerdict(
                fingerprint=lesson.fingerprint,
                state=VerdictState.ACCEPTED,
                at_ms=NOW,
                text="marigold-abacus-fjord stays out of it",
            )
        )
        assert families.LESSONS in holding(keeping, WORDS)
        report = keeping.forget(event_id=lesson.events[0])
        assert (report.events, report.proof.found_in) == (1, ())
        assert holding(keeping, WORDS) == []
        keeping.parts.close()
        assert find_files(folder, WORDS) == []


class TestATime:
    def test_its_ends_belong_to_it(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR)
        since, until = HARBOUR[1].at_ms, HARBOUR[2].at_ms
        assert keeping.forget(since=since, until=until).events == 2
        page = keeping.parts.log.list_session(SessionId("harbour"), after=None, limit=9)
        assert list(page.events) == [HARBOUR[0], HARBOUR[3]]


class Telling:
    """A summarizer that writes in its own words, never the same twice, as a model does."""

    name = "telling"

    def __init__(self) -> None:
        self.read: list[str] = []
        self._count = 0

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        return [self._summary(each) for each in conversations]

    def digest(self, periods: Sequence[PeriodSummary], /) -> list[Digest]:
        self._count += 1
        return [
            Digest(
                text=f"Told for the {self._count}th time: "
                + " ".join(child.text for child in period.children),
                bullets=tuple(
                    DigestBullet(text=one.text, grip_ids=one.grip_ids, weight=one.weight)
                    for child in period.children
                    for one in child.highlights
                ),
                highlights=tuple(one for child in period.children for one in child.highlights),
                keywords=(),
                source=self.name,
            )
            for period in periods
        ]

    def _summary(self, dialogue: Dialogue) -> Summary:
        self._count += 1
        said = dialogue.utterances
        whole = " ".join(one.text.upper() for one in (*dialogue.overlap, *said))
        self.read.append(whole)
        first = Support(event_id=said[0].event_id, at_ms=said[0].at_ms, excerpt=said[0].text[:40])
        return Summary(
            title=f"Telling {self._count}",
            text=whole,
            points=(Point(text=whole[:200], weight=1.0, support=(first,)),),
            keywords=(),
            source=self.name,
        )


def told_by(keeping: ForgettingHarness, summarizer: Summarizer) -> ForgettingHarness:
    segmenting = replace(keeping.segmenting, summarizer=summarizer)
    rollup = replace(keeping.rollup, summarizer=summarizer)
    forgetting = replace(keeping.forgetting, segmenting=segmenting, rollup=rollup)
    return replace(keeping, segmenting=segmenting, rollup=rollup, forgetting=forgetting)


class TestSummariesInOtherWords:
    def test_all_that_were_told_of_it_are_told_anew_and_no_others(
        self, keeping: ForgettingHarness
    ) -> None:
        telling = Telling()
        keeping = told_by(keeping, telling)
        later = make_dialogue("And the mast?", "It is fine.", begin=DOOMED.at_ms + 2 * HOUR)
        follows = [replace(event, session_id=SessionId("harbour")) for event in later]
        keeping.take_in(*HARBOUR, *follows, *MILL)
        assert holding(keeping, WORDS.upper())
        mill = [node for node in versions(keeping) if "MILL STANDS" in node.summary]
        telling.read.clear()

        keeping.forget(event_id=DOOMED.event_id)

        assert holding(keeping, WORDS.upper()) == []
        assert len(telling.read) == 2  # its segment, and the next, whose context it was
        assert [node for node in versions(keeping) if node in mill and not node.child_ids]


class TestBrokenOff:
    @pytest.mark.parametrize("at", PHASES)
    def test_the_next_call_finishes_it(
        self, keeping: ForgettingHarness, folder: Path, at: str
    ) -> None:
        keeping.take_in(*HARBOUR, *MILL)

        def done(phase: str, _: int) -> None:
            if phase == at:
                raise Cancelled

        with pytest.raises(Cancelled):
            keeping.forgetting.forget_events(Selection(event_id=DOOMED.event_id), done)
        keeping.work()
        report = keeping.forget(event_id=DOOMED.event_id)
        assert report.events == 1
        assert report.proof.found_in == ()
        assert find_files(folder, WORDS) == []
        assert holding(keeping, WORDS) == []
        assert keeping.forgetting.finish(lambda: None) is None

    @pytest.mark.parametrize("at", [each for each in PHASES if each != LISTING])
    def test_it_is_searched_for_all_the_same_and_the_report_can_be_asked_for(
        self, keeping: ForgettingHarness, at: str
    ) -> None:
        keeping.take_in(*HARBOUR)
        selection = Selection(event_id=DOOMED.event_id)

        def done(phase: str, _: int) -> None:
            if phase == at:
                raise Cancelled

        with pytest.raises(Cancelled):
            keeping.forgetting.forget_events(selection, done)
        finished = keeping.forgetting.finish(lambda: None)
        assert finished is not None
        assert finished.events == 1
        assert finished.proof.needles == len(forgetting.extract_needles(DOOMED))
        assert finished.proof.found_in == ()
        assert keeping.forgetting.earlier(selection, done) == finished
        assert keeping.forgetting.plan.list_needles() == set()

    def test_where_it_was_cut_off_to_ask_for_the_report_finishes_it(
        self, keeping: ForgettingHarness
    ) -> None:
        keeping.take_in(*HARBOUR)
        selection = Selection(session_id=DOOMED.session_id)

        def done(phase: str, _: int) -> None:
            if phase == CONTENTS:
                raise Cancelled

        with pytest.raises(Cancelled):
            keeping.forgetting.forget_events(selection, done)
        report = keeping.forgetting.earlier(selection, lambda _phase, _count: None)
        assert report is not None
        assert report.events == len(HARBOUR)
        assert report.proof.found_in == ()
        assert not keeping.forgetting.plan.list_events()

    def test_what_is_not_there_gets_no_report_of_another_call(
        self, keeping: ForgettingHarness
    ) -> None:
        keeping.take_in(*HARBOUR)
        selection = Selection(event_id=DOOMED.event_id)

        def done(phase: str, _: int) -> None:
            if phase == CONTENTS:
                raise Cancelled

        with pytest.raises(Cancelled):
            keeping.forgetting.forget_once(selection, done)
        unknown = Selection(event_id=EventId("nobody"))
        with pytest.raises(NotFound):
            keeping.forgetting.forget_once(unknown, lambda _phase, _count: None)
        report = keeping.forgetting.forget_once(selection, done)  # finished by the call before
        assert report.events == 1

    def test_of_what_was_never_forgotten_there_is_no_report(
        self, keeping: ForgettingHarness
    ) -> None:
        keeping.take_in(*HARBOUR)
        keeping.forget(event_id=DOOMED.event_id)
        other = Selection(session_id=DOOMED.session_id)
        assert keeping.forgetting.earlier(other, lambda _phase, _count: None) is None

    def test_the_job_leaves_one_that_is_under_way_alone(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR)
        seen: list[ForgettingReport | None] = []

        def done(phase: str, _: int) -> None:
            if phase == REMOVING:
                seen.append(keeping.forgetting.finish(lambda: None))

        keeping.forgetting.forget_events(Selection(event_id=DOOMED.event_id), done)
        assert seen == [None]

    def test_it_waits_for_the_turn_of_the_jobs(self, keeping: ForgettingHarness) -> None:
        keeping.take_in(*HARBOUR)
        reports: list[ForgettingReport] = []
        removed = threading.Event()

        def forget() -> None:
            reports.append(
                keeping.forgetting.forget_events(
                    Selection(event_id=DOOMED.event_id),
                    lambda phase, _: removed.set() if phase == REMOVING else None,
                )
            )

        thread = threading.Thread(target=forget)
        with keeping.forgetting.toc_lock:
            thread.start()
            assert removed.wait(TIMEOUT)
            assert holding(keeping, WORDS) != []  # the table of contents is not touched yet
        thread.join(TIMEOUT)
        assert [report.proof.found_in for report in reports] == [()]


class TestWithoutAnEmbedder:
    def test_vectors_from_when_there_was_one_go(self, folder: Path) -> None:
        with open_harness(folder, rocks=True, embedder=HashingEmbedder()) as keeping:
            keeping.take_in(*HARBOUR)
        assert find_files(folder / "index" / "vectors", DOOMED.event_id.encode())
        with open_harness(folder, rocks=True) as keeping:
            keeping.forget(event_id=DOOMED.event_id)
        assert find_files(folder / "index", DOOMED.event_id.encode()) == []


def test_late_events_of_a_forgotten_time_are_new_events(keeping: ForgettingHarness) -> None:
    keeping.take_in(*HARBOUR)
    keeping.forget(session_id=SessionId("harbour"))
    late = make_event("The crane is blue now.", DOOMED.at_ms, session="harbour", name="late")
    keeping.take_in(late)
    assert late.text in list_texts(keeping.parts.ask("blue crane"))
