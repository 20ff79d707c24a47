"""A day of work told from its events to its year: Segmenter and Rollup over a real store."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.kernel.ids import EventId, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import TIMEOUT, unexpected
from tests.memory_engine import MemoryEngine
from tests.toc_harness import SetClock, build_rollup, build_segmenting, list_nodes
from tests.toc_talk import Talk

HOUR = 3_600_000
MORNING = 1_772_524_800_000  # 3 March 2026, 08:00


def build_exporter() -> list[Talk]:
    """A session on a data pipeline that pauses twice: it is cut into three segments."""
    first = (
        Talk(MORNING)
        .ask("Please make the nightly export write Parquet files instead of CSV.")
        .say("Let me look at the export job first.")
        .read("export/job.py", "def export(table): ...")
        .say("Found it. The job loads each table into memory because pandas writes CSV at once.")
        .ask("Use pyarrow rather than pandas for the writing.")
        .edit("export/job.py", "import pyarrow")
        .run("pytest -q", "3 failed, 38 passed in 4s", failed=True)
        .say("Three tests fail because the fixture has no schema.")
    )
    second = (
        Talk(MORNING + 2 * HOUR)
        .ask("continue")
        .edit("tests/fixtures.py", "SCHEMA = pa.schema([])")
        .run("pytest -q", "41 passed in 4s")
        .run(
            'git commit -am "feat(export): write Parquet files with pyarrow"',
            "[main 4be1c07] feat(export): write Parquet files with pyarrow\n 2 files changed",
        )
    )
    third = (
        Talk(MORNING + 4 * HOUR)
        .ask("Partition the Parquet files by day as well, then sum up.")
        .edit("export/partitions.py", "def partition(day): ...")
        .run("pytest -q", "44 passed in 5s")
        .run(
            'git commit -am "feat(export): partition the files by day"',
            "[main 77aa310] feat(export): partition the files by day",
        )
        .say(
            "The nightly export writes Parquet files now.\n\n"
            "- Replaced pandas by pyarrow in the export job\n"
            "- Partitioned the Parquet files by day\n"
            "- All 44 tests pass\n\n"
            "**Next steps:**\n- Backfill the partitions of last year\n"
        )
    )
    return [first, second, third]


def list_events() -> list[Event]:
    return [
        Event(
            event_id=EventId(f"{part}{utterance.event_id}"),
            session_id=SessionId("export"),
            at_ms=utterance.at_ms,
            type=utterance.type,
            role=utterance.role,
            text=utterance.text,
            metadata={
                "project": "warehouse",
                "tool_name": utterance.tool_name,
                "file_path": utterance.file,
                "error": "true" if utterance.failed else "",
            },
        )
        for part, talk in enumerate(build_exporter())
        for utterance in talk.said
    ]


@dataclass(frozen=True)
class ToldContents:
    nodes: dict[Level, list[TocNode]]

    def show(self, level: Level) -> list[str]:
        return [
            f"{bullet.kind.word}: {bullet.text}"
            for node in self.nodes[level]
            for bullet in node.bullets
        ]

    def read_text(self, level: Level) -> str:
        (node,) = self.nodes[level]
        return node.summary


@pytest.fixture(scope="module")
def told() -> Iterator[ToldContents]:
    store = CommittedStore(MemoryEngine(), watch=unexpected)
    clock = SetClock(MORNING + 400 * 24 * HOUR)
    assert all(StoredEventLog(store).append(list_events()).result(TIMEOUT))
    segmenting = build_segmenting(store, clock, SegmentRules())
    while segmenting.step():
        pass
    build_rollup(store, clock).run(lambda _: None)
    nodes: dict[Level, list[TocNode]] = {}
    for node in list_nodes(store):
        nodes.setdefault(node.level, []).append(node)
    yield ToldContents(nodes)
    store.close()


LINE = (
    "The nightly export writes Parquet files now:"
    " Replaced pandas by pyarrow in the export job; Partitioned the Parquet files by day"
)
DECISION = "Use pyarrow rather than pandas for the writing"
CAUSE = "The job loads each table into memory because pandas writes CSV at once"
LEFT = "Backfill the partitions of last year"
STATE = "All 44 tests pass"


def test_segments_are_named_and_told_by_kind(told: ToldContents) -> None:
    assert [node.title for node in told.nodes[Level.SEGMENT]] == [
        "Make the nightly export write Parquet files instead of CSV",
        "Write Parquet files with pyarrow",
        "Partition the Parquet files by day as well, then sum up",
    ]
    assert told.show(Level.SEGMENT) == [
        "asked: Asked: Please make the nightly export write Parquet files instead of CSV.",
        f"found: {CAUSE}.",
        f"decided: {DECISION}.",
        "state: 3 tests fail",
        "broken: Three tests fail because the fixture has no schema.",
        "state: 41 tests pass",
        "done: Write Parquet files with pyarrow",
        "asked: Asked: Partition the Parquet files by day as well, then sum up.",
        "done: The nightly export writes Parquet files now.",
        "done: Replaced pandas by pyarrow in the export job",
        "done: Partitioned the Parquet files by day",
        f"state: {STATE}",
        f"open: {LEFT}",
    ]


def test_the_day_says_what_holds_in_the_evening(told: ToldContents) -> None:
    assert told.show(Level.DAY) == [
        "finished: The nightly export writes Parquet files now.",
        "done: Replaced pandas by pyarrow in the export job",
        "done: Partitioned the Parquet files by day",
        f"decided: {DECISION}.",
        f"found: {CAUSE}.",
        f"open: {LEFT}",
        f"state: {STATE}",
    ]


@pytest.mark.parametrize("level", [Level.DAY, Level.WEEK])
def test_a_day_and_a_week_say_what_they_were_about(told: ToldContents, level: Level) -> None:
    assert told.read_text(level) == (
        "The nightly export writes Parquet files now."
        " 1 session, 2 commits, 3 files changed, 14 min."
    )


@pytest.mark.parametrize("level", [Level.MONTH, Level.YEAR])
def test_a_month_and_a_year_count_what_came_of_it(told: ToldContents, level: Level) -> None:
    assert told.read_text(level) == (
        "1 task finished, 1 decision in warehouse. 1 session, 2 commits, 3 files changed, 14 min."
    )


def test_the_week_is_a_line_and_what_else_holds(told: ToldContents) -> None:
    assert told.show(Level.WEEK) == [
        f"finished: {LINE}",
        f"decided: {DECISION}.",
        f"found: {CAUSE}.",
        f"open: {LEFT}",
        f"state: {STATE}",
    ]


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (Level.MONTH, f"warehouse: {LINE}"),
        (Level.YEAR, f"March, warehouse: {LINE.replace(': ', ' (', 1)})"),
    ],
)
def test_a_month_and_a_year_name_the_project_and_the_kinds(
    told: ToldContents, level: Level, line: str
) -> None:
    assert told.show(level) == [
        f"finished: {line}",
        f"decided: Decided: {DECISION}",
        f"found: Found: {CAUSE}",
        f"open: Open: {LEFT}",
        f"state: State: {STATE}",
    ]


def test_every_bullet_leads_to_words_of_the_session(told: ToldContents) -> None:
    known = {grip for node in told.nodes[Level.SEGMENT] for grip in node.grip_ids()}
    for nodes in told.nodes.values():
        for node in nodes:
            assert all(bullet.grip_ids for bullet in node.bullets)
            assert node.grip_ids() <= known
