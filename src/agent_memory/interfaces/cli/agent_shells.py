"""Recognize the shells in which agents run commands."""

from collections.abc import Mapping

from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import InvalidInput

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


def check_person(run: Invocation, what: str) -> None:
    """Raise InvalidInput in the shell of an agent: only the user may do this."""
    if agent := find_agent(run.terminal.call.environ):
        raise InvalidInput(
            f"only you can {what}, and this is the shell of {agent}: run the command in a terminal"
            " of your own"
        )
