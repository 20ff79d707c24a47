"""Draw docs/images/*.svg from commands in a real terminal, or check that they are current.

The commands run on a daemon in a temporary home, after the conversation of `make demo` has been
imported. Scores come from a model whose last digits depend on the processor, so the check compares
everything except the figures and ages in the text.
"""

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
CONVERSATION = ROOT / "demo/conversation.jsonl"
COMMANDS = Path(sys.executable).parent
PROJECT = "lantern"
SECONDS = 60.0

AGE = re.compile(r"0 (?:minute|hour|day|week|month|year)s? ago")
COLUMNS = 92
CELL, LINE = 8.4, 20  # width of a character of 14 pixels, height of a line
MARGIN, BAR = 16, 38  # around the text; height of the title bar
WIDTH, TOP = COLUMNS * CELL + 2 * MARGIN, BAR + MARGIN
PALETTE = ("#7d8799", "#ff7b86", "#8fd694", "#f2cc7a", "#82aaff", "#cf9bf0", "#6fd3e3", "#dfe5ef")
PROMPT, TYPED, PLAIN, DIM = PALETTE[2], "#ffffff", "#c8d0dc", "#94a0b3"
BOX = {  # box-drawing characters as strokes: fonts leave gaps between their lines
    "─": "M0 10H8.4",
    "│": "M4.2 0V20",
    "├": "M4.2 0V20M4.2 10H8.4",
    "└": "M4.2 0V10H8.4",
}
# Only fonts that systems bring along: a picture fetches nothing.
FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title">
<title id="title">{title}</title>
<style>text {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 14px; white-space: pre }}</style>
<rect width="{width}" height="{height}" rx="10" fill="#12161e"/>
<path d="M0 38H{width}" stroke="#2b3342"/>
<circle cx="22" cy="19" r="6" fill="#ff5f57"/><circle cx="42" cy="19" r="6" fill="#febc2e"/><circle cx="62" cy="19" r="6" fill="#28c840"/>
<text x="{middle}" y="24" text-anchor="middle" fill="#94a0b3">~/{project}</text>
{body}
</svg>
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    title: str
    commands: tuple[str, ...]


PICTURES = (
    Picture(
        "recall",
        "Ask why a database was chosen, see what was done that day, capture the decision",
        (
            'memory recall "why SQLite and not PostgreSQL" --limit 1',
            "memory today --date 2026-03-04",
            'memory capture decisions "Keep photo metadata in SQLite" --tags database',
        ),
    ),
    Picture(
        "contents",
        "The table of contents over a week of conversations",
        ("memory-daemon query tree --no-bullets",),
    ),
)


class Terminal:
    """A shell user's terminal in a home that nothing else uses."""

    def __init__(self, home: Path) -> None:
        self._folder = home / PROJECT
        self._folder.mkdir()
        self._environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "MEMORY_CLI__PAGER": "false",  # nobody would leave it
        }
        settings = home / ".config/agent-memory/config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text("grpc.port = 0\nhttp.port = 0\n")
        # A repository, as projects are: elsewhere `capture` notes that a memory is not shared.
        subprocess.run(  # noqa: S603
            ("git", "init", "--quiet", str(self._folder)),  # noqa: S607
            env=self._environ,
            check=True,
        )

    def run(self, command: str) -> str:
        """Run a command without a terminal and return its output."""
        done = subprocess.run(  # noqa: S603
            self._words(command),
            env=self._environ,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{command}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def show(self, command: str) -> str:
        """Run a command on a terminal and return what it writes there, colors included."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, COLUMNS))
        with subprocess.Popen(  # noqa: S603
            self._words(command),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environ,
            cwd=self._folder,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            written = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        if process.returncode:
            sys.exit(f"{command}: exit code {process.returncode}\n{written.decode()}")
        return written.decode().replace("\r\n", "\n")

    def _words(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        return [str(COMMANDS / program), "--home", self._environ["HOME"], *arguments]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux reports the end of a terminal as an error
        return b""


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    """Start a daemon, import the conversation, and wait until it is summarized and indexed."""
    with tempfile.TemporaryDirectory(prefix="agent-memory-", ignore_cleanup_errors=True) as home:
        terminal = Terminal(Path(home))
        terminal.run("memory-daemon start")
        try:
            conversation = Path(home) / "week.jsonl"
            conversation.write_text(read_conversation())
            terminal.run(f"memory import --from jsonl {conversation}")
            for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
                terminal.run(f"memory-daemon scheduler run {job}")
            wait_until_indexed(terminal)
            yield terminal
        finally:
            terminal.run("memory-daemon stop")


def read_conversation() -> str:
    """Return the bundled conversation in the format of `memory import --from jsonl`."""
    lines = []
    for number, line in enumerate(CONVERSATION.read_text().splitlines(), 1):
        record = json.loads(line)
        record["event_id"] = f"{PROJECT}-{number}"
        record["timestamp"] = record.pop("at")
        record["event_type"] = record.pop("type")
        lines.append(json.dumps(record))
    return "\n".join(lines)


def wait_until_indexed(terminal: Terminal) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        indexes = json.loads(terminal.run("memory-daemon status --format json"))["indexes"]
        if not indexes["words_waiting"] and not indexes["vectors_waiting"]:
            return
        time.sleep(0.1)
    sys.exit(f"not indexed within {SECONDS:g} s")


def draw(picture: Picture, terminal: Terminal) -> str:
    """Run the commands of a picture and return its SVG."""
    lines: list[Text] = []
    for command in picture.commands:
        program, _, arguments = command.partition(" ")
        lines += [
            Text(),
            Text.assemble(("$ ", PROMPT), (f"{program} ", f"bold {TYPED}"), arguments),
        ]
        lines += wrap(terminal.show(command))
    return render(picture.title, lines[1:])


def wrap(output: str) -> Iterator[Text]:
    """Yield lines of at most COLUMNS characters, cut as a terminal cuts them."""
    for line in output.rstrip("\n").split("\n"):
        text = Text.from_ansi(line)
        text.rstrip()
        yield from text.divide(range(COLUMNS, len(text), COLUMNS))


def render(title: str, lines: list[Text]) -> str:
    body = (part for at, line in enumerate(lines) for part in render_line(line, TOP + at * LINE))
    return FRAME.format(
        title=escape(title),
        width=f"{WIDTH:g}",
        height=TOP + len(lines) * LINE + MARGIN,
        middle=f"{WIDTH / 2:g}",
        project=PROJECT,
        body="\n".join(body),
    )


def render_line(line: Text, top: int) -> Iterator[str]:
    column = 0
    for segment in line.render(Console()):
        style = segment.style or Style.null()
        # Every word group gets its own place and length, so that any font keeps the grid.
        for match in re.finditer(r"[─│├└]|[^\s─│├└]+(?: [^\s─│├└]+)*", segment.text):
            left = MARGIN + (column + match.start()) * CELL
            if stroke := BOX.get(match[0]):
                yield (
                    f'<path transform="translate({left:g} {top})" d="{stroke}" fill="none"'
                    f' stroke="{PALETTE[0]}"/>'
                )
                continue
            weight = ' font-weight="bold"' if style.bold else ""
            yield (
                f'<text x="{left:g}" y="{top + 15}" textLength="{len(match[0]) * CELL:g}"'
                f' lengthAdjust="spacingAndGlyphs" fill="{fill(style)}"{weight}>'
                f"{escape(match[0])}</text>"
            )
        column += len(segment.text)


def fill(style: Style) -> str:
    if style.color is None:
        return DIM if style.dim else PLAIN
    if style.color.number is None:
        return style.color.name
    return PALETTE[style.color.number % len(PALETTE)]


def without_figures(svg: str) -> str:
    """Remove the numbers and ages that the text shows, and the lengths of text that follow from
    them."""
    masked = re.sub(r">[^<]+<", lambda text: AGE.sub("0 ago", re.sub(r"\d+", "0", text[0])), svg)
    return re.sub(r' textLength="[^"]+"', "", masked)


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: tools/terminal_picture.py [--check]")
    with open_terminal() as terminal:
        fresh = {IMAGES / f"{each.name}.svg": draw(each, terminal) for each in PICTURES}
    if not sys.argv[1:]:
        IMAGES.mkdir(exist_ok=True)
        for path, svg in fresh.items():
            path.write_text(svg)
        return
    stale = [
        str(path.relative_to(ROOT))
        for path, svg in fresh.items()
        if not path.exists() or without_figures(path.read_text()) != without_figures(svg)
    ]
    if stale:
        sys.exit(f"not current: {', '.join(stale)}; run `make reference` and commit the result")


if __name__ == "__main__":
    main()
