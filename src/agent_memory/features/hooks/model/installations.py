"""Agents that call us: which there are, what of ours they run, and how that is known again."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

PROGRAM, HOOK, SERVE = "memory", "hook", "serve"
SCRIPT, PACKAGE = "launch.py", "agent_memory"
_BEFORE_A_PROGRAM = ("env", "exec")
_NOTHING = "echo '{}'"  # a veto, else, where our program is gone: Python then exits with 2
_NEVER_FAILS = (["||", "true"], ["||", ":"], ["||", "echo", "{}"])
_JOINS = frozenset("();|&\n")


class Agent(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    CURSOR = "cursor"


class InstallScope(StrEnum):
    USER = "user"  # all that this user does with the agent
    PROJECT = "project"  # one repository, or folder


class InstallStatus(StrEnum):
    """What a config says of us."""

    ABSENT = "absent"
    INSTALLED = "installed"
    OUTDATED = "outdated"  # this installation, but not all of it, or not as it is today
    ELSEWHERE = "elsewhere"  # another installation, perhaps one that is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server, as an agent starts it."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The fastest way to run a command of this installation, by absolute paths."""

    python: str
    script: str

    def hook(self, agent: Agent) -> str:
        """For a shell. The same for every event: its name is in what the agent sends."""
        return f"{shlex.join(self.hook_words(agent))} || {_NOTHING}"

    def hook_words(self, agent: Agent) -> tuple[str, ...]:
        return (*self._words(HOOK), "auto", "--agent", agent)

    def server(self) -> McpServer:
        command, *args = self._words(SERVE)
        return McpServer(command=command, args=tuple(args))

    def _words(self, verb: str) -> tuple[str, ...]:
        return (self.python, "-I", "-S", self.script, PROGRAM, verb)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTarget:
    """For whom, and for which of their work, an agent is configured. Paths are absolute."""

    scope: InstallScope
    home: str
    root: str  # of the project
    folder: str  # in which the caller is
    environ: Mapping[str, str] = field(repr=False)

    def read_override(self, variable: str) -> str:
        """The folder that an agent is told to use by a variable of its own; empty if none."""
        given = self.environ.get(variable, "")
        return str(PurePath(self.folder) / given) if given else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A file of an agent's configuration, and what of ours belongs there."""

    path: str
    hooks: bool = False
    servers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredConfig:
    """What of ours a configuration should have; by default nothing."""

    hook: str = ""
    server: McpServer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedConfig:
    """`bare` says that the file, if we made it, may go: it holds nothing."""

    text: str
    bare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEntries:
    """What of ours a file has. `off` is the setting there by which all hooks are switched off."""

    hooks: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()
    off: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """`before` is None where there is no file, `after` where there shall be none."""

    path: str
    before: str | None
    after: str | None
    emptied: str = ""  # what to leave where the file is a link to one of somebody's own


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallResult:
    """What was done to an agent's configuration, or would be."""

    agent: Agent
    title: str
    scope: InstallScope
    files: tuple[str, ...]  # that were looked at
    changes: tuple[ConfigChange, ...]
    advice: str  # what to do next, so that it acts
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """How an agent is configured at one level. `problem` tells why that cannot be seen."""

    scope: InstallScope
    standing: InstallStatus
    files: tuple[str, ...]
    commands: tuple[str, ...] = ()  # of ours, each once
    off: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    agent: Agent
    title: str
    folder: str
    present: bool  # whether its folder is there, as it is where the agent has been used
    scopes: tuple[ScopeState, ...]


def is_our_command(command: str, args: Sequence[str] | None = None, *, verb: str = HOOK) -> bool:
    """Whether this is our command, of whatever installation. With `args` it is a program's name,
    without them a line for a shell. A line that also does something else is somebody's own."""
    words = _shell_words(command) if args is None else [command, *args]
    while words and (words[0] in _BEFORE_A_PROGRAM or _is_assignment(words[0])):
        del words[0]
    if not words:
        return False
    if PurePath(words[0]).name == PROGRAM:
        return _plain(words[1:])[:1] == [verb]
    for position, word in enumerate(words):
        path = PurePath(word)
        if (path.name, path.parent.name) == (SCRIPT, PACKAGE):
            return _plain(words[position + 1 :])[:2] == [PROGRAM, verb]
    return False


def _shell_words(command: str) -> list[str]:
    """Empty where it is more than one command, or none that can be read."""
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.whitespace = " \t\r"  # not a line break: it ends a command
    try:
        words = list(lexer)
    except ValueError:
        return []
    for ending in _NEVER_FAILS:
        if words[-len(ending) :] == ending:
            del words[-len(ending) :]
    return [] if any(_JOINS.issuperset(word) for word in words if word) else words


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]
