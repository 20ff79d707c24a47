"""Build what surrounds hooks: importing transcripts, installing hooks into agents."""

import sys
from dataclasses import dataclass
from pathlib import Path

from agent_memory.bootstrap.build_handling import HandlingFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.cursor import CursorInstaller
from agent_memory.features.hooks.adapters.agents.files import DiskFiles
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.last_contexts import LastContextFolder
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import INDEX, CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptFiles
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import installations
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.platform import priority


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksFeature:
    handling: HookHandling
    last_contexts: LastContextFolder
    spool: SpoolFolder
    backfill: Backfill


def build_hooks(
    platform: Platform, log: LogFeature, memories: MemoriesFeature, handling: HandlingFeature
) -> HooksFeature:
    return HooksFeature(
        handling=handling.handling,
        last_contexts=handling.last_contexts,
        spool=handling.spool,
        backfill=Backfill(
            transcripts={
                "claude-code": TranscriptFiles(platform.worker, ClaudeCodeTranscript),
                "codex": TranscriptFiles(platform.worker, CodexTranscript, INDEX),
                "jsonl": TranscriptFiles(platform.worker, PlainTranscript),
            },
            ingest=log.ingest,
            resolver=memories.resolver,
            lower_priority=priority.lower,
            excluded=handling.excluded,
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
