"""Consoles of rich for a caller's terminal. Loading rich takes longer than most commands run."""

import io
from collections.abc import Callable

from rich.console import Console

from agent_memory.interfaces.cli.terminal import Terminal


def build_console(terminal: Terminal) -> Console:
    """Return a Console that depends only on the caller, never on the daemon's own terminal."""
    return Console(
        file=_TerminalStream(terminal.write),  # type: ignore[arg-type]  # all that rich uses
        force_terminal=terminal.call.output_is_terminal,
        color_system="standard" if terminal.color else None,
        no_color=not terminal.color,
        width=terminal.columns,
        legacy_windows=False,
        highlight=False,
        _environ=terminal.call.environ,
    )


class _TerminalStream(io.TextIOBase):
    """A text stream that writes to a caller."""

    def __init__(self, target: Callable[[str], None]) -> None:
        self._target = target

    def write(self, text: str, /) -> int:
        self._target(text)
        return len(text)

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant here
        return "utf-8"
