"""A line on a terminal that says what a command is doing: a spinner, or a bar with figures."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.cells import cell_len, set_cell_size

from agent_memory.kernel.errors import Cancelled

DELAY_SECONDS = 0.6  # what takes less long needs no line
FRAME_SECONDS = 0.1
BAR = 24
THREAD = "progress"
ERASE = "\r\x1b[K"
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FULL, _EMPTY = "━", "─"


class ProgressLine:
    """Draws itself from a thread of its own until it ends, and then erases itself."""

    def __init__(
        self,
        write: Callable[[str], None],
        columns: int,
        title: str,
        total: int | None = None,
        *,
        delay_seconds: float = DELAY_SECONDS,
    ) -> None:
        self._write = write
        self._columns = columns
        self._title = title
        self._total = total
        self._done = 0
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._is_drawn = False
        self._delay_seconds = delay_seconds
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    def advance(self, done: int) -> None:
        self._done = done

    def end(self) -> None:
        """Erase the line. Further calls do nothing."""
        self._ended.set()
        self._thread.join()
        self._erase()

    @contextlib.contextmanager
    def hide(self) -> Iterator[None]:
        """Erase the line while something else is written."""
        with self._drawing:
            self._erase()
            yield

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(ERASE)

    def _run(self) -> None:
        wait, frame = self._delay_seconds, 0
        with contextlib.suppress(Cancelled, OSError):  # the caller has disconnected
            while not self._ended.wait(wait):
                with self._drawing:
                    self._is_drawn = True
                    self._write(f"{ERASE}{self._draw(_FRAMES[frame % len(_FRAMES)])}")
                wait, frame = FRAME_SECONDS, frame + 1

    def _draw(self, spinner: str) -> str:
        seconds = time.monotonic() - self._began
        columns = self._columns - 1  # a full line would wrap
        return draw(f"{spinner} {self._title}", self._done, self._total, seconds, columns)


def draw(title: str, done: int, total: int | None, seconds: float, columns: int) -> str:
    """Return a title with a bar if the total is known, the figures and the time, in one line."""
    figures = f"{done:,}/{total:,}" if total else f"{done:,}" if done else ""
    words = "  ".join(filter(None, (title, figures, f"{seconds:.0f} s")))
    room = min(BAR, columns - cell_len(words) - 2)
    if total and room >= 5:
        filled = min(room, room * done // total)
        bar = _FULL * filled + _EMPTY * (room - filled)
        words = f"{title}  {bar}  {figures}  {seconds:.0f} s"
    return set_cell_size(words, columns) if cell_len(words) > columns else words
