"""The ports of runs: a model, programs, the web."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from agent_memory.features.runs.model.chats import ChatRequest, StreamPart
from agent_memory.features.runs.model.commands import CommandResult
from agent_memory.features.runs.model.web import Target, WebPage
from agent_memory.kernel.cancellation import CancelToken

FindLines = Callable[[bytes], Iterator[tuple[int, str]]]
"""Yield each matching line once, with its number. A long line is cut around the match."""

CompilePattern = Callable[[str], FindLines]
"""Compile a pattern that matches in time linear in the text. Raises ToolFailed with the reason."""


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
        folder: int,
        /,
        *,
        seconds: float,
        most: int,
        cancel: CancelToken,
    ) -> CommandResult:
        """Run a program in the folder of this descriptor, and return at most this many bytes of its
        output. Raises ToolFailed if it cannot run, and Cancelled once `cancel` is set: its
        processes are ended."""
        ...
