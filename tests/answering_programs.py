"""Small programs that answer a prompt, in place of an agent or a model."""

import os
import sys
from pathlib import Path
from typing import Any

from agent_memory.platform.llm.command_chat import CommandChat

_HEAD = f"#!{sys.executable} -IS\nimport json, os, signal, sys, time\n"


def write_program(folder: Path, code: str, name: str = "answer") -> Path:
    """Write an executable program. Its modules are those of the head."""
    path = folder / name
    path.write_text(_HEAD + code + "\n")
    path.chmod(0o755)
    return path


def build_chat(home: Path, code: str, /, *arguments: str, **options: Any) -> CommandChat:
    program = write_program(home, code)
    settings: dict[str, Any] = {"folder": home / "run", "environ": os.environ, **options}
    return CommandChat([str(program), *arguments], **settings)
