"""Build hooks: answering them, importing transcripts, installing them into agents."""

import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.features.hooks.adapters.agents.aider import AiderInstaller
from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.cline import ClineInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.copilot import CopilotInstaller
from agent_memory.features.hooks.adapters.agents.cursor import CursorInstaller
from agent_memory.features.hooks.adapters.agents.files import DiskFiles
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.agents.opencode import OpenCodeInstaller
from agent_memory.features.hooks.adapters.agents.roo import RooInstaller
from agent_memory.features.hooks.adapters.agents.vscode import VsCodeInstaller
from agent_memory.features.hooks.adapters.agents.windsurf import WindsurfInstaller
from agent_memory.features.hooks.adapters.agents.zed import ZedInstaller
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import INDEX, CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptFiles
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import installations
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.backfill import Backfill
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
    handling: HookHandling
    spool: SpoolFolder
    backfill: Backfill


def build_hooks(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    recall: RecallFeature,
) -> HooksFeature:
    spool, own = SpoolFolder(platform.folders.spool), platform.folders.summarizer
    excluded = ExcludedFolder(frozenset({own, own.resolve()}))
    return HooksFeature(
        handling=HookHandling(
            recording=HookRecorder(ingest=log.ingest, resolver=memories.resolver),
            injection=ContextInjection(context=recall.context, recall=recall.recall),
            auto_capture=AutoCapture(
                log=log.events, capture=memories.capture, recall=recall.recall
            ),
            remote_sync=memories.remote_sync,
            spooling=Spooling(spool=spool, secrets=platform.secrets),
            preferences=preferences,
            log=logger,
            excluded=excluded,
        ),
        spool=spool,
        backfill=Backfill(
            transcripts={
                "claude-code": TranscriptFiles(platform.worker, ClaudeCodeTranscript),
                "codex": TranscriptFiles(platform.worker, CodexTranscript, INDEX),
                "jsonl": TranscriptFiles(platform.worker, PlainTranscript),
            },
            ingest=log.ingest,
            resolver=memories.resolver,
            lower_priority=priority.lower,
            excluded=excluded,
        ),
    )


INSTALLERS = (
    ClaudeCodeInstaller(),
    CodexInstaller(),
    GeminiInstaller(),
    CursorInstaller(),
    OpenCodeInstaller(),
    CopilotInstaller(),
    VsCodeInstaller(),
    WindsurfInstaller(),
    ClineInstaller(),
    RooInstaller(),
    ZedInstaller(),
    AiderInstaller(),
)


def build_installing() -> Installing:
    package = Path(__file__).resolve().parents[1]
    return Installing(
        agents={installer.agent: installer for installer in INSTALLERS},
        files=DiskFiles(),
        launcher=installations.Launcher(
            python=sys.executable, script=str(package / installations.SCRIPT)
        ),
    )
