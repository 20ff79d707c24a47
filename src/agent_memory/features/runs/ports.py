"""What a run needs from the world: a model, a folder, programs, the web."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agent_memory.features.runs.model.chats import ChatRequest, StreamPart
from agent_memory.features.runs.model.commands import CommandResult
from agent_memory.features.runs.model.web import Target, WebPage
from agent_memory.features.runs.model.workspaces import Excerpt, FileContent, FolderEntry, Truncated
from agent_memory.kernel.cancellation import CancelToken


class CatalogFiles(Protocol):
    """The folders of the user's agents and skills, as they are at this moment."""

    @property
    def location(self) -> str:
        """Where they are, to be told."""
        ...

    def list_names(self, kind: str, /) -> list[str]:
        """Of the folders below `agents` or `skills`, in order; any name may be among them."""
        ...

    def has(self, kind: str, name: str, /) -> bool:
        """Whether there is this folder. Names that are not safe have none."""
        ...

    def read(self, kind: str, name: str, file: str, /) -> str | None:
        """None where there is no such file. Raises ConfigError where it cannot be read."""
        ...


class ChatModel(Protocol):
    """A model that one talks with; it is started by whoever needs it first. Raises LlmFailed,
    FeatureUnavailable where there is none, and Cancelled once it is told to halt."""

    def get_context_size(self, halt: CancelToken, /) -> int:
        """The tokens of its context."""
        ...

    def count_tokens(self, texts: Sequence[str], halt: CancelToken, /) -> list[int]:
        """The tokens of each, or about as many."""
        ...

    def stream(self, request: ChatRequest, halt: CancelToken, /) -> Iterator[StreamPart]:
        """What it says, piece by piece as it comes; the last is Ended. Raises ContextTooLong."""
        ...


class Workspace(Protocol):
    """One folder and what is in it: nothing else is read or changed, whatever leads out and whoever
    changes it meanwhile. Paths are from the folder, or absolute and inside. Raises ToolFailed."""

    def resolve(self, path: str, /) -> str:
        """Where this leads once links are followed, from the folder; it need not be there."""
        ...

    def read(self, path: str, /, *, most: int) -> FileContent:
        """The beginning of a file, so many bytes at most."""
        ...

    def read_lines(
        self, path: str, /, *, first: int, lines: int, chars: int, halt: CancelToken
    ) -> Excerpt:
        """Lines of a text file, so many characters at most."""
        ...

    def replace(self, path: str, data: bytes, before: str, /) -> None:
        """Whole or not at all, durable, and only where the file's digest is `before`. The path is
        as `content` told it: a link on the way has come since."""
        ...

    def walk(
        self, path: str, /, *, deep: bool, most: int, seconds: float, halt: CancelToken
    ) -> Iterator[FolderEntry | Truncated]:
        """What is in a folder, by name; deep, also what is in the folders there, except what git
        ignores. Links are not followed. After so many entries, and so long, it is cut."""
        ...

    def hold_descriptor(self) -> AbstractContextManager[int]:
        """The folder's descriptor, good until the end of it."""
        ...

    def close(self) -> None:
        """Once nobody uses it any more."""
        ...


class Workspaces(Protocol):
    def open(self, folder: str, /) -> Workspace:
        """Raises InvalidInput where it is no folder, or none that may be worked in."""
        ...


class LinePattern(Protocol):
    def find_lines(self, data: bytes, /) -> Iterator[tuple[int, str]]:
        """Those in which it is found, each once, with their numbers; of a long one the piece
        around what was found."""
        ...


class LinePatterns(Protocol):
    """Patterns that take time in proportion to the text, whatever both are."""

    def compile_pattern(self, pattern: str, /) -> LinePattern:
        """Raises ToolFailed, with what is wrong."""
        ...


class WebPages(Protocol):
    """The web, without what is only reached from here. Raises ToolFailed."""

    def resolve_url(self, url: str, /) -> Target:
        """What would be asked for."""
        ...

    def fetch(self, target: Target, /, *, seconds: float, halt: CancelToken) -> WebPage:
        """Its text as it is, bounded."""
        ...


class Programs(Protocol):
    def run(
        self,
        words: Sequence[str],
        folder: Workspace,
        /,
        *,
        seconds: float,
        most: int,
        halt: CancelToken,
    ) -> CommandResult:
        """Run a program there, and keep so many bytes of what it prints. Raises ToolFailed where it
        cannot be run, and Cancelled once it is told to halt: nothing of it runs on."""
        ...
