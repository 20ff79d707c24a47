"""Agents: where they are configured, and how our commands in their configuration are recognized."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath

PROGRAM, HOOK, SERVE = "memory", "hook", "serve"
SCRIPT, PACKAGE = "launch.py", "agent_memory"
PLUGIN, MARKETPLACE, PLUGIN_FLAG = "memory", "agent-memory", "--plugin"
_BEFORE_A_PROGRAM = ("env", "exec")
_NOTHING = "echo '{}'"  # if our program is gone, Python exits with 2, which agents take as a veto
_NEVER_FAILS = (["||", "true"], ["||", ":"], ["||", "echo", "{}"])
_JOINS = frozenset("();|&\n")
_OPTIONS_WITH_VALUE = ("--home",)  # those that may precede the name of a command


class Agent(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    CURSOR = "cursor"
    OPENCODE = "opencode"
    COPILOT = "copilot"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    CLINE = "cline"
    ROO = "roo"
    ZED = "zed"
    AIDER = "aider"


class InstallScope(StrEnum):
    USER = "user"  # all sessions of this user
    PROJECT = "project"  # one repository, or folder


class InstallStatus(StrEnum):
    """The state of our entries in a configuration."""

    ABSENT = "absent"
    INSTALLED = "installed"
    OUTDATED = "outdated"  # of this installation, but incomplete or of an earlier version
    ELSEWHERE = "elsewhere"  # of another installation, which may no longer exist


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server, as an agent starts it."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlugin:
    """Our plugin in an agent. It has the same hooks and MCP server as an installation."""

    name: str  # as the agent lists it
    removal: str  # the command that removes it
    distrust: str = ""  # why the agent does not run its hooks yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """The fastest way to run a command of this installation, by absolute paths.

    Without paths it is that of a plugin, which is the same on every machine: the program on PATH.
    `options` name the home, if it is not that of the user.
    """

    python: str = ""
    script: str = ""
    options: tuple[str, ...] = ()

    def hook(self, agent: Agent) -> str:
        """Return the shell command of a hook, the same for every event: the input names it."""
        return f"{shlex.join(self.hook_words(agent))} || {_NOTHING}"

    def hook_words(self, agent: Agent) -> tuple[str, ...]:
        origin = () if self.python else (PLUGIN_FLAG,)
        return (*self.words(PROGRAM, HOOK), "auto", "--agent", agent, *origin)

    def server(self) -> McpServer:
        """Return the MCP server."""
        command, *args = self.words(PROGRAM, SERVE)
        return McpServer(command=command, args=tuple(args))

    def words(self, program: str, *arguments: str) -> tuple[str, ...]:
        """Return the words that run a program of this installation."""
        start = (self.python, "-I", "-S", self.script) if self.python else ()
        return (*start, program, *self.options, *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTarget:
    """The user and the scope that an agent is configured for. Paths are absolute."""

    scope: InstallScope
    home: str
    root: str  # of the project
    folder: str  # the caller's working folder
    environ: Mapping[str, str] = field(repr=False)

    def read_override(self, variable: str) -> str:
        """Return the folder that an agent's own variable names, or an empty text."""
        path = self.environ.get(variable, "")
        return str(PurePath(self.folder) / path) if path else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A config file of an agent, and which of our entries belong there.

    A `plugin` file is the agent's own, and exists if our plugin is installed.
    An agent that reads one of several files has the others as `alternatives`: we edit the first
    that exists. An `optional` file is edited only if its folder exists.
    """

    path: str
    hooks: bool = False
    servers: bool = False
    plugin: bool = False
    rules: bool = False  # instructions for the model, in a block of ours
    front: str = ""  # what a new file of rules begins with
    alternatives: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredConfig:
    """The entries of ours that a configuration should have; by default none."""

    hook: str = ""
    server: McpServer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedConfig:
    """A config text after an edit. A `bare` file has no content and may be removed."""

    text: str
    bare: bool = False
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEntries:
    """Our entries in a file. `off` is a setting there that switches all hooks off."""

    hooks: tuple[str, ...] = ()
    servers: tuple[McpServer, ...] = ()
    rules: bool = False
    off: str = ""
    plugin: AgentPlugin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change to a file. `before` is None if there is no file, `after` to remove it."""

    path: str
    before: str | None
    after: str | None
    emptied: str = ""  # the text to leave instead of removing a symbolic link
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallResult:
    """The changes made to an agent's configuration, or planned by a dry run."""

    agent: Agent
    title: str
    scope: InstallScope
    files: tuple[str, ...]  # all that were read
    changes: tuple[ConfigChange, ...]
    advice: str  # what the user must do for the change to take effect
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # that were made or removed


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallRecord:
    """What installing left behind: the folders that it made, and the projects that have, or had,
    entries of ours."""

    folders: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The outcome of removing our entries from all agents. `problems` are files that could not be
    changed."""

    results: tuple[InstallResult, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """The state of an agent at one scope. `problem` says why it cannot be read."""

    scope: InstallScope
    standing: InstallStatus
    files: tuple[str, ...]
    commands: tuple[str, ...] = ()  # ours, without duplicates
    off: str = ""
    distrust: str = ""  # why the agent does not run our hooks yet
    plugin: AgentPlugin | None = None  # which has hooks of its own
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    agent: Agent
    title: str
    folder: str
    present: bool  # whether its folder exists: the agent has been used
    scopes: tuple[ScopeState, ...]


def is_our_command(command: str, args: Sequence[str] | None = None, *, verb: str = HOOK) -> bool:
    """Return whether a command runs our program, of any installation.

    With `args`, the command is a program; without, a shell line. A shell line that does anything
    else as well is the user's own.
    """
    words = _split_shell(command) if args is None else [command, *args]
    while words and (words[0] in _BEFORE_A_PROGRAM or _is_assignment(words[0])):
        del words[0]
    if not words:
        return False
    if PurePath(words[0]).name == PROGRAM:
        return _drop_options(words[1:])[:1] == [verb]
    for position, word in enumerate(words):
        path = PurePath(word)
        if (path.name, path.parent.name) == (SCRIPT, PACKAGE):
            return _drop_options(words[position + 1 :])[:2] == [PROGRAM, verb]
    return False


def _split_shell(command: str) -> list[str]:
    """Split a shell line. Return nothing if it has several commands or cannot be parsed."""
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.whitespace = " \t\r"  # a line break ends a command
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


def _drop_options(words: Sequence[str]) -> list[str]:
    previous = ("", *words)
    return [
        word
        for word, before in zip(words, previous, strict=False)
        if not word.startswith("-") and before not in _OPTIONS_WITH_VALUE
    ]
