"""What hooks need: the spool, transcripts, and the files in which agents are configured."""

from collections.abc import Iterator
from typing import Protocol

from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.model.installations import (
    ConfigChange,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallTarget,
)
from agent_memory.features.hooks.model.transcripts import Chunk, TranscriptSource


class Spool(Protocol):
    """What hooks were told while no daemon answered."""

    def put(self, told: HookCall, /) -> None:
        """Durable once it returns; the same delivery twice is there once. Raises Overloaded where
        there is no room, and StorageFailed."""
        ...

    def list_pending(self) -> list[str]:
        """The names of what is there, the oldest first."""
        ...

    def get(self, name: str, /) -> HookCall | None:
        """None where it is gone. Raises ValueError where it cannot be understood."""
        ...

    def set_aside(self, name: str, /) -> None:
        """Keep it for whoever wants to look at it; it waits no longer."""
        ...

    def remove(self, name: str, /) -> None: ...


class Transcripts(Protocol):
    """What one kind of agent has written down of its sessions."""

    def list_sources(self, place: str, /) -> list[TranscriptSource]:
        """The files below a folder, or the one file and those that belong to it. Raises
        InvalidInput where it is neither."""
        ...

    def read_chunks(self, source: TranscriptSource, /) -> Iterator[Chunk]:
        """All that is in it, a bounded piece at a time, from the beginning. What cannot be read is
        told as refused."""
        ...


class AgentSetup(Protocol):
    """How one agent is configured: in which files, and what of ours stands there. No I/O; the text
    of a file that is not there is empty. Raises ConfigError where a text cannot be read."""

    @property
    def title(self) -> str: ...

    def get_folder(self, seat: InstallTarget, /) -> str:
        """The agent's own folder of this user."""
        ...

    def list_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]: ...

    def list_shared_files(self, seat: InstallTarget, /) -> tuple[ConfigFile, ...]:
        """Files that count too, and are not ours to change."""
        ...

    def edit_file(self, file: ConfigFile, text: str, wanted: DesiredConfig, /) -> EditedConfig:
        """With what is wanted of ours, and nothing else of ours; the rest as it was."""
        ...

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries: ...

    def get_advice(self, seat: InstallTarget, /) -> str:
        """What to do so that a change acts."""
        ...


class ConfigFiles(Protocol):
    """The files in which agents are configured. Raises ConfigError."""

    def read(self, path: str, /) -> str | None:
        """None where there is no such file."""
        ...

    def apply(self, change: ConfigChange, /) -> None:
        """Whole or not at all, and only if the file is what it was."""
        ...

    def is_folder(self, path: str, /) -> bool: ...

    def find_root(self, folder: str, /) -> str:
        """The repository's folder that this one is in, or the folder itself."""
        ...
