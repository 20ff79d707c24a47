"""Build the table of contents."""

import threading
from dataclasses import asdict, dataclass

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.ports import Summarizer
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter


@dataclass(frozen=True, slots=True, kw_only=True)
class TocFeature:
    store: StoredToc
    segmenting: Segmenter
    rollup: Rollup
    rebuild: Rebuild
    contents: Contents
    journal: WorkJournal
    lock: threading.Lock  # held while nodes are written: segments, rollups, rebuild, forgetting


def build_toc(platform: Platform, log: LogFeature) -> TocFeature:
    toc, lock = StoredToc(platform.store), threading.Lock()
    extractive = ExtractiveSummarizer(platform.worker)
    summarizer = _build_summarizer(platform, extractive)
    segmenting = Segmenter(
        log=log.events,
        outbox=log.outbox,
        reader=toc,
        writer=toc,
        drafter=extractive,
        summarizer=summarizer,
        clock=platform.clock,
        rules=SegmentRules(**asdict(platform.settings.toc)),
    )
    rollup = Rollup(
        reader=toc, writer=toc, drafter=extractive, summarizer=summarizer, clock=platform.clock
    )
    return TocFeature(
        store=toc,
        segmenting=segmenting,
        rollup=rollup,
        rebuild=Rebuild(
            log=log.events, segmenting=segmenting, rollup=rollup, writer=toc, toc_lock=lock
        ),
        contents=Contents(log=log.events, toc=toc),
        journal=WorkJournal(
            log=log.events,
            finder=log.events,
            toc=toc,
            clock=platform.clock,
            zone=platform.zone,
        ),
        lock=lock,
    )


def _build_summarizer(platform: Platform, fallback: ExtractiveSummarizer) -> Summarizer:
    if platform.settings.summarizer.provider == "extractive":
        return fallback
    from agent_memory.bootstrap import build_models

    budget = StoredTokenBudget(platform.store)
    return build_models.build_summarizer(
        platform.settings, platform.model, fallback, budget, platform.clock
    )
