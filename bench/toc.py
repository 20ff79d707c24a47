"""What the table of contents costs: `python -m bench.toc [TRANSCRIPTS]`.

Raw events to a finished table, one event more in a small and in a large store, how soon an event is
in the tree while commands keep their latency, and how much room the nodes take.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from agent_memory import client
from agent_memory.client import MemoryClient
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.interfaces.wire.events import parse_event
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.platform.worker.process import ProcessWorker
from bench import conversation, results
from bench.launch import SCRIPT, isolated, run
from bench.results import Table

START_MS = 1_767_225_600_000  # 1 January 2026
ROLES = {"user": EventRole.USER, "assistant": EventRole.ASSISTANT, "tool": EventRole.TOOL}
TYPES = {
    "user": EventType.USER_MESSAGE,
    "assistant": EventType.ASSISTANT_MESSAGE,
    "tool": EventType.TOOL_RESULT,
}


class Pipeline:
    """The product's own parts, without a daemon around them."""

    def __init__(self, folder: Path) -> None:
        self.store = CommittedStore(RocksEngine(folder), watch=_fail)
        self.engine_path = folder
        self.log = StoredEventLog(self.store)
        self.toc = StoredToc(self.store)
        self.worker = ProcessWorker()
        summarizer = ExtractiveSummarizer(self.worker)
        clock = SystemClock()
        self.segmenting = Segmenter(
            log=self.log,
            outbox=StoredOutbox(self.store),
            reader=self.toc,
            writer=self.toc,
            drafter=summarizer,
            summarizer=summarizer,
            clock=clock,
            rules=SegmentRules(),
        )
        self.rollup = Rollup(
            reader=self.toc,
            writer=self.toc,
            drafter=summarizer,
            summarizer=summarizer,
            clock=clock,
        )

    def ingest(self, events: Iterable[Event]) -> None:
        batch: list[Event] = []
        for event in events:
            batch.append(event)
            if len(batch) == 500:
                self.log.append(batch).result()
                batch = []
        self.log.append(batch).result()

    def build(self) -> None:
        while self.segmenting.step():
            pass
        self.segmenting.seal()
        self.rollup.run(lambda _: None)

    def close(self) -> None:
        self.worker.close()
        self.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transcripts", nargs="?", type=Path)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=100_000)
    options = results.parse_options(parser, events=1_000, large=5_000)
    rows: list[Sequence[str]] = []
    with tempfile.TemporaryDirectory(prefix="am-toc-") as name:
        folder = Path(name)
        if options.transcripts is not None:
            rows.append(
                throughput("transcripts", folder, many(options.transcripts, options.events))
            )
        rows.append(throughput("written by us", folder, list(made(options.events))))
        rows.append([])
        small = one_more(folder / "small", 1_000)
        large = one_more(folder / "large", options.large)
        rows.append(["one event more, 1,000 stored", f"{small * 1000:.1f} ms", "", ""])
        rows.append(
            [
                f"one event more, {options.large:,} stored",
                f"{large * 1000:.1f} ms",
                f"{large / small:.2f} x",
                verdict("<= 1.2", large / small <= 1.2),
            ]
        )
        rows.append([])
        rows.append(freshness())
        rows.append([])
        nodes, grips = nodes_share(folder / "day")
        met = verdict("<= 15%", nodes <= 0.15)
        rows.append(["nodes after a day of live talk", f"{nodes:.1%}", "of the text", met])
        rows.append(["and their grips", f"{grips:.1%}", "of the text", ""])
    head = ["bench.toc", "measured", "", "goal"]
    title = "Table of contents, extractive summarizer"
    results.report(options, "toc", [Table(title, head, rows)])


def throughput(title: str, folder: Path, events: list[Event]) -> Sequence[str]:
    pipeline = Pipeline(folder / title.replace(" ", "-"))
    try:
        pipeline.ingest(events)
        pipeline.worker.call(sum, [], timeout_seconds=60)  # it is up when a backfill comes
        started = time.perf_counter()
        pipeline.build()
        rate = len(events) / (time.perf_counter() - started)
    finally:
        pipeline.close()
    return [
        f"raw events to finished TOC, {title} ({len(events):,})",
        f"{rate:,.0f}/s",
        "",
        verdict(">= 2,000", rate >= 2000),
    ]


def one_more(folder: Path, stored: int) -> float:
    """Seconds from one event in order to the finished table, median of several."""
    pipeline = Pipeline(folder)
    try:
        pipeline.ingest(made(stored))
        pipeline.build()
        now = time.time_ns() // 1_000_000
        times = []
        for number, event in enumerate(made(40, seed=7)):
            live = Event(
                event_id=EventId(f"live-{number}"),
                session_id=SessionId("live"),
                at_ms=Millis(now + number * 1000),
                type=event.type,
                role=event.role,
                text=event.text,
            )
            pipeline.log.append([live]).result()
            started = time.perf_counter()
            pipeline.segmenting.step()
            pipeline.rollup.run(lambda _: None)
            times.append(time.perf_counter() - started)
        return statistics.median(times)
    finally:
        pipeline.close()


def freshness() -> Sequence[str]:
    """From an answered ingest to the event's segment in the tree of a real daemon."""
    with isolated():
        run([SCRIPT[0], "start"])
        try:
            times = []
            with MemoryClient.connect_default() as memory:
                for number in range(20):
                    session = f"fresh-{number}"
                    now = time.time_ns() // 1_000_000
                    memory.ingest(
                        client.Event(
                            session_id=session,
                            timestamp=now,
                            event_type=client.EventType.USER_MESSAGE,
                            role=client.EventRole.USER,
                            text=f"We decided to keep lighthouse {number} lit all night.",
                        )
                    )
                    times.append(_until_in_tree(memory, number + 1))
        finally:
            run([SCRIPT[0], "stop"])
    worst = max(times)
    return [
        "ingested to seen in the tree, 20 times",
        f"{statistics.median(times):.2f} s",
        f"worst {worst:.2f} s",
        verdict("<= 2 s", worst <= 2),
    ]


def _until_in_tree(memory: MemoryClient, segments: int) -> float:
    started = time.perf_counter()
    while True:
        today = datetime.now(UTC).date().isoformat()
        day = memory.get_node(f"toc:day:{today}")
        roots = memory.get_toc_root()
        if roots and day is not None and len(day.child_node_ids) >= segments:
            return time.perf_counter() - started
        time.sleep(0.01)


def nodes_share(folder: Path) -> tuple[float, float]:
    """Bytes of nodes and grips beside the text of the events, one event at a time."""
    pipeline = Pipeline(folder)
    try:
        now = time.time_ns() // 1_000_000
        size = 0
        for number, event in enumerate(made(600, seed=3)):
            live = Event(
                event_id=event.event_id,
                session_id=SessionId("day"),
                at_ms=Millis(now + number * 20_000),
                type=event.type,
                role=event.role,
                text=event.text,
            )
            size += len(live.text.encode())
            pipeline.log.append([live]).result()
            pipeline.segmenting.step()
            pipeline.rollup.run(lambda _: None)
        nodes, grips = (
            sum(
                len(key) + len(value)
                for key, value in pipeline.store.scan(family, b"", b"\xff", limit=1_000_000)
            )
            for family in ("toc_nodes", "grips")
        )
        return nodes / size, grips / size
    finally:
        pipeline.close()


def made(count: int, seed: int = 1) -> Iterable[Event]:
    return (parse_event(each) for each in conversation.events(seed, count, START_MS))


def many(folder: Path, count: int) -> list[Event]:
    """Repeat the transcripts, a day apart, until there are enough events."""
    once = list(transcripts(folder))
    found: list[Event] = []
    while len(found) < count:
        number = len(found)
        found += [
            replace(
                event,
                event_id=EventId(f"{event.event_id}-{number}"),
                session_id=SessionId(f"{event.session_id}-{number}"),
                at_ms=Millis(event.at_ms + number // len(once) * 86_400_000),
            )
            for event in once
        ]
    return found


def transcripts(folder: Path) -> Iterable[Event]:
    """User, assistant and tool text of Claude Code transcripts, read roughly."""
    for path in sorted(folder.rglob("*.jsonl")):
        for number, line in enumerate(path.open()):
            record = json.loads(line)
            if record.get("type") not in ("user", "assistant") or "timestamp" not in record:
                continue
            at = _millis(record["timestamp"])
            for part, (role, text) in enumerate(_texts(record["message"])):
                yield Event(
                    event_id=EventId(f"{path.stem}-{number}-{part}"),
                    session_id=SessionId(path.stem),
                    at_ms=Millis(at),
                    type=TYPES[role],
                    role=ROLES[role],
                    text=text[:200_000],
                )


def _texts(message: dict[str, object]) -> Iterable[tuple[str, str]]:
    content, role = message.get("content"), str(message.get("role"))
    if isinstance(content, str):
        yield role, content
    elif isinstance(content, list):
        for block in content:
            if block.get("type") == "text":
                yield role, block["text"]
            elif block.get("type") == "tool_result":
                yield "tool", json.dumps(block.get("content"))


def _millis(iso: str) -> int:

    return int(datetime.fromisoformat(iso).timestamp() * 1000)


def verdict(text: str, met: bool) -> str:
    return f"{text} {'ok' if met else 'SHORT'}"


def _fail(health: StoreHealth) -> None:
    sys.stderr.write(f"write failed: {health.reason}\n")
    os._exit(1)


if __name__ == "__main__":
    main()
