"""`make demo`: a real daemon on a data folder of its own, a conversation in, memory back out."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from agent_memory.client import Event, EventRole, EventType, MemoryClient
from agent_memory.interfaces.cli.layout import fit
from agent_memory.interfaces.cli.progress import ProgressLine

CONVERSATION = Path(__file__).with_name("conversation.jsonl")
SESSION = Path(__file__).with_name("session.jsonl")
COMMANDS = Path(sys.executable).parent
QUESTIONS = (
    "why did the disk fill up with thumbnails",
    "which database did we decide on",
    "which page was slow on 9 March 2026",
)


def main() -> int:
    with daemon() as shell:
        say("A coding agent's conversations over one week go in: three lines of Python.")
        with MemoryClient.connect_default() as memory:
            created = memory.ingest_batch(conversation())
            show(f"{created} events recorded, each on disk before it was answered")
            say("The same conversation once more: nothing is stored twice.")
            show(f"{memory.ingest_batch(conversation())} new events")
        say("The daemon, as you meet it in a shell:")
        shell("memory-daemon", "status")
        say("What was said on 4 March 2026, between 13:40 and 13:50?")
        start, end = millis("2026-03-04T13:40:00Z"), millis("2026-03-04T13:50:00Z")
        shell("memory-daemon", "query", "events", "--from", str(start), "--to", str(end))
        say("Nobody has to ask by the minute: there is a table of contents, made without any LLM.")
        for job in ("segment-summarizer", "hourly-rollup"):  # they run by themselves; now is sooner
            shell.quietly("memory-daemon", "scheduler", "run", job)
        shell("memory-daemon", "query", "tree")
        say("Every bullet leads back to the words it rests on:")
        with MemoryClient.connect_default() as memory:
            month = memory.get_node("toc:month:2026:03")
            bullets = () if month is None else month.bullets
            decision = next(each for each in bullets if "SQLite" in each.text)
        show(f"- {decision.text}")
        shell("memory-daemon", "query", "expand", decision.grip_ids[0], "--before", "2")
        say("It can be asked in plain words, and each answer says where it stands:")
        shell.quietly("memory-daemon", "scheduler", "run", "outbox-processor")
        for question in QUESTIONS:
            shell("memory", "recall", question, "--in", "events,segments", "--limit", "2")
        say("An agent has all of that by itself, through its hooks (`memory install claude-code`).")
        say("Here is a session of one, call by call, and what it is told each time:")
        play_session(shell)
        look(shell)
    return 0


def look(shell: "Shell") -> None:
    """Open the page and wait, or say how to."""
    if not os.environ.get("UI"):
        say("All of this has a page, too: `make demo UI=1` opens it in your browser.")
        return
    say("Look at it in your browser:")
    shell("memory", "ui")
    say("Press Enter to end the demo.")
    sys.stdin.readline()


def play_session(shell: "Shell") -> None:
    project = Path(os.environ["HOME"]) / "lantern"
    git = ("git", "-C", str(project), "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "init", "--quiet", project], check=True)  # noqa: S607
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "First"], check=True)
    os.chdir(project)
    shell("memory", "capture", "learnings", "The thumbnail cache evicts by wall clock, not by use")
    *session, next_one = SESSION.read_text().splitlines()
    for line in session:
        shell.hook({**json.loads(line), "cwd": str(project), "transcript_path": ""})
    deadline = time.monotonic() + 10
    while "growing pause" not in shell.quietly("memory", "list") and time.monotonic() < deadline:
        time.sleep(0.05)  # the capture comes after the hook has answered
    shell.hook({**json.loads(next_one), "cwd": str(project), "transcript_path": ""})
    say("What was marked as a decision was captured when the session ended, so the next one knows.")
    shell("memory", "list")
    os.chdir("/")


class Shell:
    """Types commands as a person would."""

    def __call__(self, program: str, *arguments: str) -> None:
        sys.stdout.write(f"\n    $ {shlex.join((program, *arguments))}\n")
        if sys.stdout.isatty():  # the command sees the terminal, as it does for a person
            sys.stdout.flush()
            subprocess.run(build_words(program, *arguments), check=True)
            return
        for line in self.quietly(program, *arguments).splitlines():
            show(line)

    def hook(self, event: dict[str, str]) -> None:
        told = event.get("prompt") or event.get("tool_name") or event.get("source") or ""
        show(f"{event['hook_event_name']}: {told}" if told else event["hook_event_name"])
        answer = subprocess.run(
            build_words("memory", "hook", "auto"),
            check=True,
            input=json.dumps(event).encode(),
            capture_output=True,
        ).stdout
        given = json.loads(answer).get("hookSpecificOutput", {}).get("additionalContext", "")
        for each in given.splitlines():
            show(f"    {each}")

    def quietly(self, program: str, *arguments: str) -> str:
        with spinner(shlex.join((program, *arguments))):
            return subprocess.run(
                build_words(program, *arguments), check=True, capture_output=True, text=True
            ).stdout


def build_words(program: str, *arguments: str) -> list[str]:
    """Return the words that run a program in the folder of the demo."""
    return [str(COMMANDS / program), "--home", os.environ["HOME"], *arguments]


@contextmanager
def daemon() -> Iterator[Shell]:
    """Run a daemon in a folder of its own, started and stopped by commands."""
    folder = Path(tempfile.mkdtemp(prefix="agent-memory-demo-"))
    os.environ["HOME"] = str(folder)
    settings = folder / ".config/agent-memory/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("grpc.port = 0\nhttp.port = 0\n")
    os.environ.pop("MEMORY_ENDPOINT", None)
    os.environ["MEMORY_PAGER"] = ""  # the demo goes on by itself
    try:
        with spinner("Starting the daemon"):
            words = build_words("memory-daemon", "start")
            subprocess.run(words, check=True, capture_output=True)
        yield Shell()
    finally:
        with spinner("Stopping the daemon"):
            words = build_words("memory-daemon", "stop")
            subprocess.run(words, check=False, capture_output=True)
        shutil.rmtree(folder)


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """Show on a terminal what takes a moment."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return

    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    sys.stdout.flush()
    line = ProgressLine(write, shutil.get_terminal_size().columns, title)
    try:
        yield
    finally:
        line.end()


def conversation() -> Iterator[Event]:
    for number, line in enumerate(CONVERSATION.read_text().splitlines(), 1):
        record = json.loads(line)
        yield Event(
            event_id=f"demo-{number:03}",
            session_id=record["session_id"],
            timestamp=datetime.fromisoformat(record["at"]),
            event_type=EventType[record["type"].upper()],
            role=EventRole[record["role"].upper()],
            text=record["text"],
            metadata=record.get("metadata", {}),
        )


def millis(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)


def say(text: str) -> None:
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    sys.stdout.write(f"\n{textwrap.fill(text, columns)}\n")
    sys.stdout.flush()


def show(text: str) -> None:
    text = f"    {text}"
    if sys.stdout.isatty():
        text = fit(text, shutil.get_terminal_size().columns)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
