"""Ports of hooks: the spool, options, the log, transcripts, and the setup of agents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from agent_memory.features.hooks.model.consent import FolderNames, IgnoreRules, Pause
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.model.installations import (
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallTarget,
)
from agent_memory.features.hooks.model.preferences import HookOptions
from agent_memory.features.hooks.model.transcripts import Chunk, TranscriptSource
from agent_memory.kernel.ids import Millis

ReadText = Callable[[str], str | None]
LoadOptions = Callable[[Mapping[str, str], str], HookOptions]  # for an environment and a folder


class Spool(Protocol):
    """Hook calls that arrived while no daemon answered."""

    def put(self, call: HookCall, /) -> None:
        """Store a call, durably; the same delivery twice is stored once.

        Raises Overloaded if the spool is full, and StorageFailed.
        """
        ...

    def list_pending(self) -> list[str]:
        """Return the names of the calls that wait, oldest first."""
        ...

    def get(self, name: str, /) -> HookCall | None:
        """Return a call, or None if it is gone. Raises ValueError if it is damaged."""
        ...

    def set_aside(self, name: str, /) -> None:
        """Keep a call for inspection; it is pending no longer."""
        ...

    def remove(self, name: str, /) -> None: ...


class PauseStore(Protocol):
    """Whether recording is paused on this machine. Every process sees a change at once."""

    def read(self) -> Pause | None:
        """Return the last pause, which may be over, or None. One that cannot be read is a pause."""
        ...

    def write(self, until_ms: Millis | None, /) -> None:
        """Pause until a time, or without an end. Raises StorageFailed."""
        ...

    def remove(self) -> None:
        """End the pause. Raises StorageFailed."""
        ...


class ProjectPaths(Protocol):
    """The folders of projects. Nothing here raises, whatever path an agent sends."""

    def find_existing(self, *folders: str) -> str:
        """Return the first of these folders that exists, else the root."""
        ...

    def list_names(self, folder: str, /) -> FolderNames: ...

    def find_root(self, folder: str, /) -> str:
        """Return the root of the repository around a folder, else the folder. Of a worktree it is
        the root of the main one."""
        ...

    def resolve(self, path: str, folder: str, /) -> tuple[str, ...]:
        """Return a path, which may begin in this folder, as written, and where links lead."""
        ...

    def read_ignore_rules(self, folder: str, /) -> list[IgnoreRules]:
        """Return the rules of the `.memoryignore` in a folder and above it, outermost first."""
        ...


class HookLog(Protocol):
    """A structured log: the name of an event, and its facts."""

    def info(self, event: str, /, **facts: object) -> object: ...

    def warning(self, event: str, /, **facts: object) -> object: ...

    def error(self, event: str, /, **facts: object) -> object: ...

    def exception(self, event: str, /, **facts: object) -> object:
        """Log an error with the exception that is being handled."""
        ...


class Transcripts(Protocol):
    """The session files of one kind of agent."""

    def list_sources(self, path: str, /) -> list[TranscriptSource]:
        """Return the session files below a folder, or one file and those that belong to it.

        Raises InvalidInput if the path is neither.
        """
        ...

    def read_chunks(
        self, sources: Sequence[TranscriptSource], /
    ) -> Iterator[tuple[TranscriptSource, Chunk]]:
        """Read files from the beginning, one after the other, in chunks of bounded size.

        Records that cannot be read are counted as refused.
        """
        ...


class AgentSetup(Protocol):
    """The config files of one agent, and our entries in them. No I/O.

    The text of a missing file is empty. Raises ConfigError if a text cannot be parsed.
    """

    @property
    def title(self) -> str: ...

    def get_folder(self, target: InstallTarget, /) -> str:
        """Return the agent's own folder of this user."""
        ...

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]: ...

    def list_shared_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        """Return files that the agent reads too, but that we must not change."""
        ...

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        """Return the text with exactly the desired entries of ours, and all others unchanged."""
        ...

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries: ...

    def find_distrust(self, target: InstallTarget, read: ReadText, /) -> str:
        """Return why the agent does not run our hooks yet, or an empty text. `read` returns the
        text of a file, or None if it does not exist."""
        ...

    def get_advice(self, target: InstallTarget, /) -> str:
        """Return what the user must do for a change to take effect."""
        ...
