"""What hooks need: the spool, transcripts, and the files in which agents are configured."""

from collections.abc import Iterator
from typing import Protocol

from agent_memory.features.hooks.model.hooks import Told
from agent_memory.features.hooks.model.installations import Change as ConfigChange
from agent_memory.features.hooks.model.installations import ConfigFile, Edited, Ours, Seat, Wanted
from agent_memory.features.hooks.model.transcripts import Chunk, Source


class Spool(Protocol):
    """What hooks were told while no daemon answered."""

    def put(self, told: Told, /) -> None:
        """Durable once it returns; the same delivery twice is there once. Raises Overloaded where
        there is no room, and StorageFailed."""
        ...

    def waiting(self) -> list[str]:
        """The names of what is there, the oldest first."""
        ...

    def get(self, name: str, /) -> Told | None:
        """None where it is gone. Raises ValueError where it cannot be understood."""
        ...

    def set_aside(self, name: str, /) -> None:
        """Keep it for whoever wants to look at it; it waits no longer."""
        ...

    def remove(self, name: str, /) -> None: ...


class Transcripts(Protocol):
    """What one kind of agent has written down of its sessions."""

    def sources(self, place: str, /) -> list[Source]:
        """The files below a folder, or the one file and those that belong to it. Raises
        InvalidInput where it is neither."""
        ...

    def chunks(self, source: Source, /) -> Iterator[Chunk]:
        """All that is in it, a bounded piece at a time, from the beginning. What cannot be read is
        told as refused."""
        ...


class AgentSetup(Protocol):
    """How one agent is configured: in which files, and what of ours stands there. No I/O; the text
    of a file that is not there is empty. Raises ConfigError where a text cannot be read."""

    @property
    def title(self) -> str: ...

    def folder(self, seat: Seat, /) -> str:
        """The agent's own folder of this user."""
        ...

    def files(self, seat: Seat, /) -> tuple[ConfigFile, ...]: ...

    def shared(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        """Files that count too, and are not ours to change."""
        ...

    def edited(self, file: ConfigFile, text: str, wanted: Wanted, /) -> Edited:
        """With what is wanted of ours, and nothing else of ours; the rest as it was."""
        ...

    def ours(self, file: ConfigFile, text: str, /) -> Ours: ...

    def advice(self, seat: Seat, /) -> str:
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

    def root(self, folder: str, /) -> str:
        """The repository's folder that this one is in, or the folder itself."""
        ...
