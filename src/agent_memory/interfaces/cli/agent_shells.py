"""Recognize the shells in which agents run commands, and what they read there."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_memory.kernel.errors import InvalidInput

if TYPE_CHECKING:
    from agent_memory.interfaces.cli.commands import Invocation

# Variables that agents set in the shells that they run commands in.
AGENT_VARIABLES: Mapping[str, str] = {
    "CLAUDECODE": "Claude Code",
    "CODEX_CI": "Codex",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "OpenCode",
    "CURSOR_AGENT": "Cursor",
    "COPILOT_CLI": "GitHub Copilot",
    "CLINE_ACTIVE": "Cline",
    "QWEN_CODE": "Qwen Code",
    "AUGMENT_AGENT": "Augment",
    "AI_AGENT": "an agent",
}


# Commands whose output is about the product, or repeats what the agent has passed. All others show
# what was recorded, so it is framed.
_OWN_WORDS = (
    "memory capture", "memory edit", "memory resolve", "memory archive", "memory forget",
    "memory status", "memory ui", "memory on", "memory off", "memory pause", "memory resume",
    "memory sync", "memory remote", "memory team", "memory export", "memory import",
    "memory migrate",
    "memory install", "memory uninstall", "memory doctor", "memory config",
    "memory completion", "memory help", "memory hook", "memory serve",
    "memory-daemon start", "memory-daemon stop", "memory-daemon restart", "memory-daemon status",
    "memory-daemon service", "memory-daemon serve-team", "memory-daemon admin",
    "memory-daemon scheduler", "memory-daemon audit", "memory-daemon token",
    "memory-daemon completion", "memory-daemon help", "kontekst completion",
)  # fmt: skip


def shows_memory(command: str) -> bool:
    """Tell whether a command, such as `memory recall`, shows what was recorded."""
    return " ".join(command.split()[:2]) not in _OWN_WORDS


def find_agent(environ: Mapping[str, str]) -> str:
    """Return the agent whose shell has this environment; empty if no agent set it."""
    return next((name for key, name in AGENT_VARIABLES.items() if environ.get(key)), "")


def name_agent(environ: Mapping[str, str]) -> str:
    """Return the agent whose shell this is, as its records name it."""
    name = find_agent(environ)
    return "agent" if name == AGENT_VARIABLES["AI_AGENT"] else _slug(name)


def find_session(environ: Mapping[str, str]) -> str:
    """Return the session of the agent whose shell this is, if the agent tells."""
    return environ.get("CODEX_THREAD_ID", "")


def _slug(name: str) -> str:
    return name.lower().removeprefix("github ").removesuffix(" cli").replace(" ", "-")


def check_person(run: "Invocation", what: str) -> None:
    """Raise InvalidInput in the shell of an agent: only the user may do this."""
    if agent := find_agent(run.terminal.call.environ):
        raise InvalidInput(
            f"only you can {what}, and this is the shell of {agent}: run the command in a terminal"
            " of your own"
        )
