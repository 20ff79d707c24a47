"""The ports of runs: a model, a folder, programs, the web."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agent_memory.features.runs.model.chats import ChatRequest, StreamPart
from agent_memory.features.runs.model.commands import CommandResult
from agent_memory.features.runs.model.web import Target, WebPage
from agent_memory.features.runs.model.workspaces import Excerpt, FileContent, FolderEntry, Truncated
from agent_memory.kernel.cancellation import CancelToken


class CatalogFiles(Protocol):
    """The folders of the user's agents and skills."""

    @property
    def location(self) -> str:
        """The path, for messages."""
        ...

    def list_names(self, kind: str, /) -> list[str]:
        """Return the names of the folders of `agents` or `skills`, sorted and unchecked."""
        ...

    def has(self, kind: str, name: str, /) -> bool:
        """Return whether this folder exists. False for unsafe names."""
        ...

    def read(self, kind: str, name: str, file: str, /) -> str | None:
        """Return the file, or None if it does not exist. Raises ConfigError if it is unreadable."""
        ...


class ChatModel(Protocol):
    """A chat model, started at first use. Raises LlmFailed, FeatureUnavailable if none is
    configured, and Cancelled once `cancel` is set."""

    def get_context_size(self, cancel: CancelToken, /) -> int:
        """Return the size of the context in tokens."""
        ...

    def count_tokens(self, texts: Sequence[str], cancel: CancelToken, /) -> list[int]:
        """Count the tokens of each text, exactly or about."""
        ...

    def stream(self, request: ChatRequest, cancel: CancelToken, /) -> Iterator[StreamPart]:
        """Yield the parts of the answer as they arrive; StreamEnd is the last. Raises
        ContextTooLong."""
        ...


class Workspace(Protocol):
    """One folder and its content. Nothing outside is read or changed, even if links lead out or
    another process changes them meanwhile. Paths are relative, or absolute and inside. Raises
    ToolFailed."""

    def resolve(self, path: str, /) -> str:
        """Follow links and return the path from the folder. The file need not exist."""
        ...

    def read(self, path: str, /, *, most: int) -> FileContent:
        """Read at most this many bytes from the start of a file."""
        ...

    def read_lines(
        self, path: str, /, *, first: int, lines: int, chars: int, cancel: CancelToken
    ) -> Excerpt:
        """Read lines of a text file, at most this many characters."""
        ...

    def replace(self, path: str, data: bytes, before: str, /) -> None:
        """Replace a file atomically and durably, if its digest is still `before`. The path is the
        one that `read` returned, so a link on it is new and refused."""
        ...

    def walk(
        self, path: str, /, *, deep: bool, most: int, seconds: float, cancel: CancelToken
    ) -> Iterator[FolderEntry | Truncated]:
        """Yield the entries of a folder, sorted. If `deep`, include those of its folders, except
        what git ignores. Do not follow links. Stop after `most` entries or `seconds`."""
        ...

    def hold_descriptor(self) -> AbstractContextManager[int]:
        """Hold the descriptor of the folder open during the context."""
        ...

    def close(self) -> None:
        """Release the folder after its last use."""
        ...


class Workspaces(Protocol):
    def open(self, folder: str, /) -> Workspace:
        """Open a folder. Raises InvalidInput if it is not a folder or not allowed."""
        ...


class LinePattern(Protocol):
    def find_lines(self, data: bytes, /) -> Iterator[tuple[int, str]]:
        """Yield each matching line once, with its number. A long line is cut around the match."""
        ...


class LinePatterns(Protocol):
    """Patterns that match in time linear in the text."""

    def compile_pattern(self, pattern: str, /) -> LinePattern:
        """Compile a pattern. Raises ToolFailed with the reason."""
        ...


class WebPages(Protocol):
    """Pages of the public web: private addresses are refused. Raises ToolFailed."""

    def resolve_url(self, url: str, /) -> Target:
        """Resolve the address that `fetch` would request."""
        ...

    def fetch(self, target: Target, /, *, seconds: float, cancel: CancelToken) -> WebPage:
        """Fetch the text of a page, up to a limit."""
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
        cancel: CancelToken,
    ) -> CommandResult:
        """Run a program in the folder and return at most this many bytes of its output. Raises
        ToolFailed if it cannot run, and Cancelled once `cancel` is set: its processes are ended."""
        ...
