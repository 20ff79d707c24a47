"""The service of forgetting over a real store and real indexes, as `bootstrap` builds it."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agent_memory.features.forgetting.adapters.forgetting_plan import (
    StoredForgettingPlan,
)
from agent_memory.features.forgetting.adapters.traces import StoredTraces
from agent_memory.features.forgetting.model.forgetting import ForgettingReport, Selection
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.purging import Purging
from agent_memory.features.hooks.services.last_contexts import LastContextFolder
from agent_memory.features.index.ports import Embedder
from agent_memory.features.injections.adapters.ledger_store import StoredLedger
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.lessons.adapters.extraction_worker import ExtractionWorker
from agent_memory.features.lessons.adapters.lesson_store import StoredLessons
from agent_memory.features.lessons.model import extracting
from agent_memory.features.lessons.services.lesson_learning import LessonLearner
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.features.upstream.adapters.upstream_store import StoredErasures, StoredUpstream
from agent_memory.features.upstream.services.erasing import MachineErasures
from agent_memory.kernel.ids import Millis
from agent_memory.platform.leadership import SoleLeadership
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.maintenance import GuardedMaintenance
from agent_memory.platform.store.rocks import RocksEngine
from tests.contract.stores import unexpected
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine
from tests.recall_parts import NOW, RecallHarness, build_recall


class ManualClock:
    """A clock that is set by hand."""

    def __init__(self, at_ms: int = NOW) -> None:
        self.at_ms = at_ms

    def now(self) -> Millis:
        return Millis(self.at_ms)


@dataclass(frozen=True, slots=True)
class ForgettingHarness:
    """Everything that an event gets into, and what gets it out again."""

    parts: RecallHarness
    clock: ManualClock
    segmenting: Segmenter
    rollup: Rollup
    learning: Learner
    lessons: LessonLearner
    injections: Injections
    forgetting: Forgetting

    def take_in(self, *events: Event) -> None:
        """Stored, cut, rolled up and indexed, as the jobs do it."""
        self.parts.keep(*events)
        self.work()

    def work(self) -> None:
        while self.segmenting.step():
            pass
        self.segmenting.seal()
        self.rollup.run(lambda _: None)
        self.parts.keep_up()

    def forget(self, **selection: object) -> ForgettingReport:
        chosen = Selection(**selection)  # type: ignore[arg-type]
        return self.forgetting.forget_events(chosen, lambda _phase, _count: None)


def build_harness(
    engine: RocksEngine | MemoryEngine,
    store: CommittedStore,
    folder: Path,
    *,
    embedder: Embedder | None = None,
    rules: SegmentRules | None = None,
    clock: ManualClock | None = None,
) -> ForgettingHarness:
    """The indexes lie in the folder, beside a store that may."""
    clock = clock or ManualClock()
    parts = build_recall(store, folder / "index", embedder)
    segmenting = replace(parts.segmenting, clock=clock, rules=rules or SegmentRules())
    summarizer = segmenting.summarizer
    rollup = Rollup(
        reader=parts.toc, writer=parts.toc, drafter=summarizer, summarizer=summarizer, clock=clock
    )
    learning = Learner(
        log=parts.log,
        outbox=parts.outbox,
        knowledge=parts.knowledge,
        clock=clock,
        owner="local:ann",
    )
    lessons = LessonLearner(
        log=parts.log,
        outbox=parts.outbox,
        lessons=StoredLessons(store),
        extractor=ExtractionWorker(InlineWorker(), extracting.extract),
        on_learned=lambda: None,
    )
    injections = Injections(
        ledger=StoredLedger(store), documents=parts.library, secrets=PassThrough(), clock=clock
    )
    forgetting = Forgetting(
        log=parts.log,
        remover=StoredEventLog(store),
        plan=StoredForgettingPlan(store, clock),
        segmenting=segmenting,
        rollup=rollup,
        eraser=parts.toc,
        learners=[learning, lessons],
        injections=injections,
        purging=Purging(
            indexes=parts.indexes,
            recall=parts.recall,
            store=GuardedMaintenance(engine, store),
            traces=StoredTraces(store, lambda: [folder]),
            discard_vectors=lambda: shutil.rmtree(folder / "index" / "vectors", ignore_errors=True),
            discard_contexts=LastContextFolder(folder / "last-contexts").clear,
            announce=lambda: None,
        ),
        listener=StoredUpstream(store),
        queue=MachineErasures(
            erasures=StoredErasures(store),
            log=parts.log,
            taken=StoredUpstream(store),
            read_hours=lambda: 0,
            clock=clock,
        ),
        toc_lock=threading.Lock(),
        leadership=SoleLeadership(),
    )
    return ForgettingHarness(
        parts, clock, segmenting, rollup, learning, lessons, injections, forgetting
    )


@contextmanager
def open_harness(
    folder: Path,
    *,
    rocks: bool = False,
    embedder: Embedder | None = None,
    rules: SegmentRules | None = None,
    clock: ManualClock | None = None,
) -> Iterator[ForgettingHarness]:
    """Over what lies in the folder; in memory over nothing."""
    engine = RocksEngine(folder / "db") if rocks else MemoryEngine()
    store = CommittedStore(engine, watch=unexpected)
    try:
        keeping = build_harness(engine, store, folder, embedder=embedder, rules=rules, clock=clock)
        yield keeping
        keeping.parts.close()
    finally:
        store.close()


def find_files(folder: Path, needle: bytes) -> list[str]:
    """Those whose bytes hold it, RocksDB's own log and all."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and needle in path.read_bytes()
    )
