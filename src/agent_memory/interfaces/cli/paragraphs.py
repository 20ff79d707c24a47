"""Paragraphs of styled text: wrapped to the width of a terminal, one line each in a pipe."""

from rich.text import Text

from agent_memory.interfaces.cli.rich_console import build_console
from agent_memory.interfaces.cli.terminal import Terminal

MIN_WIDTH = 20


class Paragraphs:
    """Lines of styled text for the caller's terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self._console = build_console(terminal)
        self.is_wrapped = terminal.call.output_is_terminal
        self.columns = terminal.columns
        self._lines: list[Text] = []

    def add(self, text: Text, *, head: Text | None = None, indent: int = 0) -> None:
        """Add a paragraph. Its further lines begin below its text, after the `head`."""
        head = Text() if head is None else head
        width = max(MIN_WIDTH, self.columns - indent - head.cell_len)
        lines = list(text.wrap(self._console, width)) if self.is_wrapped else [text]
        for number, line in enumerate(lines or [Text()]):
            line.rstrip()
            margin = head if number == 0 else Text(" " * head.cell_len)
            self._lines.append(Text.assemble(" " * indent, margin, line))

    def add_cut(self, text: Text, *, indent: int = 0) -> None:
        """Add one line; on a terminal, cut what does not fit."""
        line = Text.assemble(" " * indent, text)
        line.rstrip()
        if self.is_wrapped:
            line.truncate(max(MIN_WIDTH, self.columns), overflow="ellipsis")
        self._lines.append(line)

    def add_blank(self) -> None:
        """Add an empty line, unless there is one already or it would be the first."""
        if self._lines and self._lines[-1]:
            self._lines.append(Text())

    def render(self) -> str:
        with self._console.capture() as captured:
            for line in self._lines:
                line.rstrip()
                self._console.print(line, soft_wrap=True)
        return captured.get().removesuffix("\n")
