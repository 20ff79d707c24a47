"""Build the table of contents."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

import structlog

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.config import SummarizerSettings
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.features.toc.model.editions import RebuildProgress
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.ports import Summarizer, TocReader
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenter
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.turns import TurnLock
from agent_memory.platform.llm import programs

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TocFeature:
    store: StoredToc
    reader: TocReader
    segmenting: Segmenter
    rollup: Rollup
    rebuild: Rebuild
    contents: Contents
    background_rebuild: BackgroundRebuild
    lock: TurnLock  # held while nodes are written: segments, rollups, rebuild, forgetting
    journal: WorkJournal


def build_toc(platform: Platform, log: LogFeature, toc: StoredToc, reader: TocReader) -> TocFeature:
    lock = TurnLock()
    extractive = ExtractiveSummarizer(platform.worker)
    summarizer = _build_summarizer(platform, extractive)
    segmenting = Segmenter(
        log=log.events,
        outbox=log.outbox,
        reader=reader,
        writer=toc,
        drafter=extractive,
        summarizer=summarizer,
        clock=platform.clock,
        rules=SegmentRules(**asdict(platform.settings.toc)),
    )
    rollup = Rollup(
        reader=reader, writer=toc, drafter=extractive, summarizer=summarizer, clock=platform.clock
    )
    background_rebuild = BackgroundRebuild(
        reader=reader,
        writer=toc,
        editions=toc,
        segmenting=segmenting,
        rollup=rollup,
        toc_lock=lock,
        on_begin=_log_begin,
        on_end=_log_end,
    )
    with suppress(StorageFailed):  # a store that cannot be written now: the job does it later
        background_rebuild.mark_new_store()
    return TocFeature(
        store=toc,
        reader=reader,
        segmenting=segmenting,
        rollup=rollup,
        rebuild=Rebuild(
            log=log.events,
            segmenting=segmenting,
            rollup=rollup,
            reader=reader,
            writer=toc,
            editions=toc,
            toc_lock=lock,
            leadership=platform.leadership,
        ),
        background_rebuild=background_rebuild,
        contents=Contents(log=log.events, toc=reader),
        journal=WorkJournal(
            log=log.events,
            finder=log.events,
            toc=reader,
            clock=platform.clock,
            zone=platform.zone,
        ),
        lock=lock,
    )


def _log_begin(progress: RebuildProgress) -> None:
    logger.info("contents.rebuild_begun", edition=progress.edition, segments=progress.total)


def _log_end(progress: RebuildProgress) -> None:
    logger.info(
        "contents.rebuilt",
        edition=progress.edition,
        segments=progress.done,
        written=progress.written,
        seconds=round(progress.spent_ms / 1000, 1),
    )


def describe_summarizer(settings: SummarizerSettings, environ: Mapping[str, str]) -> str:
    """Name the provider of summaries, and its program if it has one. Raises ConfigError and
    FeatureUnavailable if that cannot be run."""
    if settings.provider != "command":
        return settings.provider
    return f"command ({programs.find_program(settings.command, environ)})"


def _build_summarizer(platform: Platform, fallback: ExtractiveSummarizer) -> Summarizer:
    if platform.settings.summarizer.provider == "extractive":
        return fallback
    from agent_memory.bootstrap import build_models

    return build_models.build_summarizer(platform, fallback, StoredTokenBudget(platform.store))
