"""Build hooks: answering them, importing transcripts, installing them into agents."""

import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_consent import build_consent
from agent_memory.bootstrap.build_injections import InjectionsFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.cursor import CursorInstaller
from agent_memory.features.hooks.adapters.agents.files import DiskFiles
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.adapters.transcripts.readers import build_readers
from agent_memory.features.hooks.model import installations
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.hooks.services.recording import HookRecorder
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.interfaces.hooks import preferences
from agent_memory.platform import priority

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFeature:
    consent: RecordingConsent
    handling: HookHandling
    spool: SpoolFolder
    backfill: Backfill


def build_hooks(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    recall: RecallFeature,
    injections: InjectionsFeature,
) -> HooksFeature:
    spool, own = SpoolFolder(platform.folders.spool), platform.folders.summarizer
    excluded = ExcludedFolder(frozenset({own, own.resolve()}))
    consent = build_consent(platform.folders.data)
    return HooksFeature(
        consent=consent,
        handling=HookHandling(
            recording=HookRecorder(ingest=log.ingest, resolver=memories.resolver),
            injection=ContextInjection(context=recall.context, recall=recall.recall),
            injections=injections.injections,
            auto_capture=AutoCapture(
                log=log.events, capture=memories.capture, recall=recall.recall
            ),
            remote_sync=memories.remote_sync,
            spooling=Spooling(spool=spool, secrets=platform.secrets),
            preferences=preferences,
            consent=consent,
            log=logger,
            excluded=excluded,
        ),
        spool=spool,
        backfill=Backfill(
            transcripts=build_readers(platform.worker),
            ingest=log.ingest,
            resolver=memories.resolver,
            consent=consent,
            lower_priority=priority.lower,
            excluded=excluded,
        ),
    )


def build_installing() -> Installing:
    installers = (ClaudeCodeInstaller(), CodexInstaller(), GeminiInstaller(), CursorInstaller())
    package = Path(__file__).resolve().parents[1]
    return Installing(
        agents={installer.agent: installer for installer in installers},
        files=DiskFiles(),
        launcher=installations.Launcher(
            python=sys.executable, script=str(package / installations.SCRIPT)
        ),
    )
