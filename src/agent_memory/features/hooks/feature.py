"""The import of transcripts, and the installation of hooks into agents."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from agent_memory import config
from agent_memory.features.hooks.adapters.agents.aider import AiderInstaller
from agent_memory.features.hooks.adapters.agents.claude_code import ClaudeCodeInstaller
from agent_memory.features.hooks.adapters.agents.cline import ClineInstaller
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller
from agent_memory.features.hooks.adapters.agents.copilot import CopilotInstaller
from agent_memory.features.hooks.adapters.agents.cursor import CursorInstaller
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller
from agent_memory.features.hooks.adapters.agents.opencode import OpenCodeInstaller
from agent_memory.features.hooks.adapters.agents.roo import RooInstaller
from agent_memory.features.hooks.adapters.agents.vscode import VsCodeInstaller
from agent_memory.features.hooks.adapters.agents.windsurf import WindsurfInstaller
from agent_memory.features.hooks.adapters.agents.zed import ZedInstaller
from agent_memory.features.hooks.adapters.transcripts.readers import build_readers
from agent_memory.features.hooks.model import installations
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.hooks.services.config_files import DiskFiles
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.install_ledger import LedgerFile
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.composition import Composition
from agent_memory.launcher import environment
from agent_memory.platform.base import Platform
from agent_memory.platform.foreground import IMPORT_REST, Foreground, Pacer


def build(context: Composition) -> None:
    platform = context[Platform]
    context.add(
        Backfill(
            transcripts=build_readers(platform.worker),
            ingest=context[Ingest],
            resolver=context[ProjectResolver],
            consent=context[RecordingConsent],
            step_back=lambda: _step_back(platform.foreground),
            excluded=context[ExcludedFolder],
        ),
        build_installing(),
    )


def _step_back(foreground: Foreground) -> Callable[[], object]:
    foreground.step_back()
    return Pacer(foreground, IMPORT_REST).give_way


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
    """Build the installer, with the ledger in the data folder of this process's user."""
    package = Path(__file__).resolve().parents[2]
    return Installing(
        agents={installer.agent: installer for installer in INSTALLERS},
        files=DiskFiles(),
        ledger=LedgerFile(config.folders(os.environ).data),
        launcher=installations.Launcher(
            python=sys.executable,
            script=str(package / installations.SCRIPT),
            options=tuple(environment.home_option()),
        ),
    )
