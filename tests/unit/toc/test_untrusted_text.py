"""Texts written to keep the reader busy are read in time linear in their size."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import (
    commands,
    digests,
    evidence,
    extracting,
    naming,
    reports,
    speech_acts,
)
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.summaries import ChildSummary, PeriodSummary, Utterance
from agent_memory.kernel.ids import EventId, Millis

TIMEOUT_S = 60  # for all of them; they take a few seconds
SIZE = 30_000
REPEATED = (
    " ", "\n", "\t", " \n", "a ", "all ", "12 ", "so ", "now ", "ok, ", "yes ", "please ", "no ",
    "|", "| ", "| a ", "- ", "- a\n", "* ", "# ", "#", "=", "=== ", "**Next", "A: ", "a, ", "`a`, ",
    "(", "(a ", "[", "[x] ", "[ ] a\n", "I have ", ", let me ", "it ", "the issue ", "known a ",
    " -c", "git ", "git -c", "git -c x ", "git commit ", "git commit -m ", 'git commit -m "',
    "git commit -m 'x ", 'git commit -m "\\" ', 'git commit -m "$(cat <<EOF\n', "git tag -a ",
    "close x ", "close ", "close x --reason ", 'close x --reason "a\\" ', "close x -m 'a' ",
    "bd create ", "bd create -t 'a' ", 'bd create --title "', "Created ", "gh pr merge ",
    "test result: FAILED. ", "Tests ", "1 ", "1", "1 failed, ", "error: ", "error:\n", "E:", "a-1.",
    "aa-", ".1", "title:", "title:\n", "show ", "[main 1234567] ", "Exit code ", "feat(", "\x1b]",
)  # fmt: skip
OPENED = (
    ("git", " -c", ""),
    ("git", " ", "x"),
    ("git commit -m", "m", ""),
    ("git commit -m '", "x", ""),
    ('git commit -m "$(cat <<EOF\n', "\n E", ""),
    ("close ", "a", ""),
    ('close x --reason "', "a. B", ""),
    ("close x -m", " ", ""),
    ("bd create --title ", " ", ""),
    ("bd create --title 'a'\nCreated a", ".", ""),
    ("|", " ", "x"),
    ("  |", "- ", "x"),
    ("test result: FAILED. ", "1", ""),
    ("show ", "a", ""),
    ("app-", "a", ""),
    ("app-x1", ".1", "-"),
    ("Done: a", " ", ", let me"),
    ("(", "a", ""),
    ("Tests", "\n", "1 passed"),
    ("error:", " ", "\n"),
)


def hostile_texts() -> Iterator[str]:
    for unit in REPEATED:
        yield unit * (SIZE // len(unit))
    for opening, unit, end in OPENED:
        yield opening + unit * (SIZE // len(unit)) + end


def run_command(text: str) -> Utterance:
    return Utterance(
        event_id=EventId("e"),
        at_ms=Millis(0),
        type=EventType.TOOL_RESULT,
        role=EventRole.TOOL,
        text=text,
        tool_name="Bash",
    )


def say(text: str) -> Utterance:
    return Utterance(
        event_id=EventId("f"),
        at_ms=Millis(1),
        type=EventType.ASSISTANT_MESSAGE,
        role=EventRole.ASSISTANT,
        text=text,
    )


def digest_bullet(text: str) -> None:
    shown = Highlight(text=text[:20_000], grip_ids=("g",), weight=1.0, kind=HighlightKind.DONE)
    child = ChildSummary(title="", text="", highlights=(shown,), keywords=())
    digests.digest(PeriodSummary(level=Level.WEEK, children=(child,)))


READERS: tuple[Callable[[str], object], ...] = (
    speech_acts.classify,
    speech_acts.is_go_on,
    speech_acts.is_red,
    speech_acts.tidy_sentence,
    speech_acts.lacks_subject,
    reports.has_structure,
    reports.read_compaction,
    reports.tidy,
    lambda text: reports.read_report(text, worked=True),
    lambda text: list(commands.find_effects(run_command(text))),
    lambda text: commands.find_test_state(run_command(text)),
    lambda text: commands.read_todos([replace(run_command(text), tool_name="TodoWrite")]),
    lambda text: commands.find_issues([run_command(f"Bash: bd show ab-1\nab-1 {text}")]),
    lambda text: commands.find_issues([run_command(f"Bash: {text}\nab-1")]),
    lambda text: commands.has_failed(run_command(text)),
    commands.find_refs,
    commands.clean_subject,
    lambda text: evidence.is_vague(text[: reports.MAX_READ]),
    lambda text: evidence.describe_fault(run_command(text), text),
    naming.shorten,
    lambda text: naming.find_named_task(text, {}),
    digest_bullet,
    lambda text: extracting.summarize([run_command(text[:2000]), say(text)]),
    lambda text: extracting.summarize([run_command(text[at : at + 2000]) for at in range(8)]),
)


def read_all() -> int:
    """Give every hostile text to every reader, and return the number of readings."""
    count = 0
    for text in hostile_texts():
        for read in READERS:
            read(text)
            count += 1
    return count


def test_hostile_texts_do_not_keep_a_reader_busy() -> None:
    script = "from tests.unit.toc import test_untrusted_text as t; print(t.read_all())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert int(done.stdout) == (len(REPEATED) + len(OPENED)) * len(READERS)
