"""The table of contents: segments, rollups, the rebuild, and the journal of work."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace

import structlog

from agent_memory.config import Settings, SummarizerSettings
from agent_memory.features.log.ports import Events, Outbox
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
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.turns import TurnLock
from agent_memory.platform.base import Platform
from agent_memory.platform.llm import programs

logger = structlog.get_logger()

COMMAND_SECONDS = 120.0  # an agent starts, thinks and answers in 10 to 60
COMMAND_BATCH_SECONDS = 120.0  # jobs hold the lock of the table of contents meanwhile


def build(context: Composition) -> None:
    platform, events = context[Platform], context[Events]
    toc, reader = context[StoredToc], context[TocReader]
    lock = TurnLock()
    extractive = ExtractiveSummarizer(platform.worker)
    summarizer = _build_summarizer(context, extractive)
    segmenting = Segmenter(
        log=events,
        outbox=context[Outbox],
        reader=reader,
        writer=toc,
        drafter=extractive,
        summarizer=summarizer,
        clock=platform.clock,
        rules=SegmentRules(**asdict(context[Settings].toc)),
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
    context.add(
        lock,
        segmenting,
        rollup,
        background_rebuild,
        Rebuild(
            log=events,
            segmenting=segmenting,
            rollup=rollup,
            reader=reader,
            writer=toc,
            editions=toc,
            toc_lock=lock,
            leadership=platform.leadership,
        ),
        Contents(log=events, toc=reader),
        WorkJournal(
            log=events, finder=events, toc=reader, clock=platform.clock, zone=platform.zone
        ),
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


def _build_summarizer(context: Composition, fallback: ExtractiveSummarizer) -> Summarizer:
    platform, settings = context[Platform], context[Settings]
    if settings.summarizer.provider == "extractive":
        return fallback
    # Late: their libraries take long to load.
    from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
    from agent_memory.features.toc.chat_models import build_chat

    limits = Limits(daily_tokens=settings.summarizer.daily_token_budget)
    if settings.summarizer.provider == "llama":
        limits = replace(limits, context_tokens=settings.llama.context_size)
    elif settings.summarizer.provider == "command":
        limits = replace(
            limits, request_seconds=COMMAND_SECONDS, batch_seconds=COMMAND_BATCH_SECONDS
        )
    return LlmSummarizer(
        settings.summarizer.provider,
        build_chat(context, "toc", in_background=True),
        fallback,
        StoredTokenBudget(platform.store),
        platform.clock,
        limits,
    )
