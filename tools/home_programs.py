"""Programs of an installation in the home that HOME names: for agents, which know no `--home`."""

from pathlib import Path

from agent_memory.launcher.command_client import PROGRAMS


def write_programs(folder: Path, programs: Path) -> None:
    """Write programs into a folder that is before `programs` on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec "{programs / name}" --home "$HOME" "$@"\n')
        program.chmod(0o700)
