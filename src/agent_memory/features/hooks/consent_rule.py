"""Build the consent rule, in a module of its own so that hooks without a daemon load nothing
else."""

from pathlib import Path

from agent_memory.features.hooks.adapters.pause_file import PauseFile
from agent_memory.features.hooks.adapters.project_folders import ProjectFolders
from agent_memory.features.hooks.hook_options import load_options
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.platform.clock import SystemClock


def build_consent(data: Path) -> RecordingConsent:
    return RecordingConsent(
        load_options=load_options,
        pauses=PauseFile(data),
        folders=ProjectFolders(),
        clock=SystemClock(),
    )
