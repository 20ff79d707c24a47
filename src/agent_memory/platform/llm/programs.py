"""Programs that answer a prompt, such as coding agents: where they are, and their environment."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_memory.kernel.errors import ConfigError, FeatureUnavailable

EXAMPLE = 'memory config set summarizer.command "claude -p --model haiku"'
# An agent that runs for us calls our hooks too: its session must not be recorded.
_HOOKS_OFF = {"MEMORY_HOOKS__ENABLED": "false"}
# Our settings, and the marks of an agent that started the daemon: others would not run inside it.
_LEFT_OUT = ("MEMORY_", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
_PLAIN_OUTPUT = {"TERM": "dumb", "NO_COLOR": "1"}


def find_program(command: Sequence[str], environ: Mapping[str, str]) -> Path:
    """Find the program of `summarizer.command`.

    Raises ConfigError if it is not set or relative, FeatureUnavailable if there is no such program.
    """
    if not command or not command[0].strip():
        raise ConfigError(
            "summarizer.provider is command, and summarizer.command is not set: name a program that"
            f" reads a prompt on standard input and answers on standard output: {EXAMPLE}"
        )
    if "/" in command[0] and not command[0].startswith(("/", "~")):
        raise ConfigError(
            f"summarizer.command starts with {command[0]}: use a name on PATH, or an absolute path"
        )
    name = str(Path(command[0]).expanduser())
    path = environ.get("PATH", os.defpath)
    program = shutil.which(name, path=path)
    if program is not None:
        return Path(program).absolute()
    if not name.startswith("/"):
        reason = f"is not on PATH, which is {path}"
    elif Path(name).is_file():
        reason = "is not executable"
    else:
        reason = "does not exist"
    raise FeatureUnavailable(
        f"cannot run summarizer.command: {name} {reason}. A daemon has your shell's PATH only after"
        " `memory-daemon start`; an absolute path always works"
    )


def build_environment(environ: Mapping[str, str], passed: str, program: Path) -> dict[str, str]:
    """Build the environment of the program: the daemon's, without our settings and such marks.
    `passed` names one of our variables that it gets all the same, such as that of a key.

    Any other setting could be wrong, and hooks then leave out all of them, with the one that
    switches them off.
    """
    variables = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_LEFT_OUT) or (name == passed and "__" not in name)
    }
    # What runs a script is often beside it: node beside the agents that npm installs.
    path = f"{program.parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return variables | {"PATH": path} | _PLAIN_OUTPUT | _HOOKS_OFF
