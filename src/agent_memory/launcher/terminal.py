"""Prompts, pager and editor: parts of a command that need the user's terminal."""

import os

from .command_client import write

MAX_TEXT_BYTES = 4 << 20  # from the editor


def ask(prompt: bytes, hidden: bool) -> bytes:
    """Read one line from the user, with its newline; return nothing at the end of input. On a
    terminal, discard keys typed before the prompt."""
    if not os.isatty(0):
        write(2, prompt)
        return read_line()
    import termios

    termios.tcflush(0, termios.TCIFLUSH)
    write(2, prompt)
    if not hidden:
        return read_line()
    shown = termios.tcgetattr(0)
    silent = list(shown)
    silent[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, silent)
        return read_line()
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, shown)
        write(2, b"\n")


def ask_key(prompt: bytes) -> bytes:
    """Read one key from the user, without Enter; return nothing at the end of input. Without a
    terminal, read a line."""
    if not os.isatty(0):
        write(2, prompt)
        return read_line()
    import termios

    lines = termios.tcgetattr(0)
    keys = list(lines)
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    keys[6] = list(lines[6])
    keys[6][termios.VMIN], keys[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(0, termios.TCSADRAIN, keys)
        write(2, prompt)
        key = os.read(0, 1)
        if key == b"\x1b":  # an arrow, for example: the rest of its sequence are no keys
            termios.tcflush(0, termios.TCIFLUSH)
        return key
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, lines)


def read_line() -> bytes:
    """Read a line byte by byte: the input after it belongs to the next reader."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def page(text: bytes) -> None:
    """Show the text in the user's pager: that of MEMORY_PAGER, of PAGER, or less. Write it if there
    is none. Ctrl-C goes to the pager alone."""
    import signal

    # An empty MEMORY_PAGER, as `cat`, is no pager; an empty PAGER is the usual one.
    chosen = os.environ.get("MEMORY_PAGER", os.environ.get("PAGER", "").strip() or "less -FRX")
    words = chosen.split()
    if words in ([], ["cat"]):
        write(1, text)
        return
    readable, writable = os.pipe()
    environment = {"LESS": "FRX", **os.environ}
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = os.posix_spawnp(
            words[0],
            words,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, readable, 0), (os.POSIX_SPAWN_CLOSE, writable)],
            setsigdef=(signal.SIGINT, signal.SIGPIPE),
        )
        os.close(readable)
        try:
            write(writable, text)
        except BrokenPipeError:
            pass  # the user has left the pager
        os.close(writable)
        os.waitpid(child, 0)
        return
    except OSError:
        pass  # there is no such program
    finally:
        signal.signal(signal.SIGINT, ours)
    write(1, text)


class EditorFile:
    """The file that the user's editor opens, once or again. It stays until the daemon has taken
    over the text: whatever fails, the user's words are not lost."""

    def __init__(self) -> None:
        self.is_saved = False
        self._path = ""
        self._given = self._text = b""

    def edit(self, text: bytes) -> bytes:
        """Open the text in the editor. Return `1` and the saved text, or `0` and the reason why
        there is none. Ctrl-C goes to the editor alone."""
        import signal

        try:
            self._write(text)
        except OSError as exc:
            return f"0the text cannot be written to a file for the editor: {exc}".encode()
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            # As git does: the editor may have options, and its name may have blanks.
            child = os.posix_spawnp(
                "sh",
                ["sh", "-c", f'{editor} "$@"', editor, self._path],
                os.environ,
                setsigdef=(signal.SIGINT, signal.SIGPIPE),
            )
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            signal.signal(signal.SIGINT, ours)
        try:
            self._read()
        except OSError as exc:
            return f"0the text cannot be read after editing: {exc}".encode()
        if code in (126, 127):
            return f"0the editor cannot be started: {editor!r}; set EDITOR to yours".encode()
        if code:
            return f"0the editor ended with code {code}: nothing is changed".encode()
        if len(self._text) > MAX_TEXT_BYTES:
            return f"0the text has {len(self._text):,} bytes, too many for a memory".encode()
        return b"1" + self._text

    def close(self) -> None:
        """Remove the file, unless it has words that the daemon did not take over."""
        if not self._path:
            return
        if not self.is_saved and self._text != self._given:
            write(2, f"note: your text is in {self._path}\n".encode(errors="surrogateescape"))
            return
        import shutil

        shutil.rmtree(os.path.dirname(self._path), ignore_errors=True)

    def _write(self, text: bytes) -> None:
        if not self._path:
            import tempfile

            self._path = os.path.join(tempfile.mkdtemp(prefix="memory-"), "memory.md")
            self._given = text
        self._text = text
        target = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write(target, text)
        finally:
            os.close(target)

    def _read(self) -> None:
        with open(self._path, "rb") as file:
            self._text = file.read(MAX_TEXT_BYTES + 1)
