"""A table of contents that a program writes: a real daemon, real programs, and no trace of them."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from agent_memory.features.hooks.feature import build_installing
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.platform.priority import NICENESS
from tests.answering_programs import write_program
from tests.command_runner import Home
from tests.hook_inputs import SAMPLES
from tests.memory_client import Client
from tests.processes import wait_for_end
from tests.search_client import connect
from tests.toc_conversations import Toc, conversation

TALK = conversation(
    "import",
    "2024-07-03 08:00",
    [
        ("user", "The nightly import loses rows when two workers pick the same batch."),
        ("assistant", "The claim query reads the batch and marks it in two transactions."),
        ("user", "Agreed, let's go with SKIP LOCKED. Keep the batch size at 500 rows."),
    ],
)
# Answers every kind of question, and notes in its first argument how it was run.
WRITER = """
prompt = sys.stdin.read()
if '"bullets"' in prompt:
    answer = {
        "title": "Rows lost by the nightly import",
        "summary": "Two workers took the same batch; SKIP LOCKED was chosen.",
        "bullets": [
            {"text": "SKIP LOCKED was chosen", "quote": "let's go with SKIP LOCKED"},
            {"text": "Penguins migrated", "quote": "Penguins migrated"},
        ],
        "keywords": ["SKIP LOCKED"],
    }
elif '"sources"' in prompt:
    answer = {"answer": "SKIP LOCKED was chosen.", "sources": [1]}
else:
    answer = {"text": "The nightly import was repaired."}
with open(sys.argv[1], "a") as notes:
    notes.write(json.dumps([os.getcwd(), os.nice(0)]) + "\\n")
print("```json\\n" + json.dumps(answer) + "\\n```")
"""
# All agents at once: at its first question, each calls the hook that `memory install` gave it with
# every event that it has; with "reduced", without the variable that marks our own run.
OURS = replace(build_installing().launcher, options=("--home", "HOME"))
HOOKS = {agent: OURS.hook_words(agent) for agent in Agent}
CALLS = [
    (agent, re.sub(r"/home/ada/projects/\w+", "FOLDER", json.dumps(given)))
    for agent in Agent
    for name, given in SAMPLES.items()
    if name.startswith(f"{agent}/")
]
AGENT = f"""
import subprocess
environ = dict(os.environ)
if "reduced" in sys.argv: del environ["MEMORY_HOOKS__ENABLED"]
hooks = json.loads({json.dumps(HOOKS)!r})
calls = json.loads({json.dumps(CALLS)!r})
for agent, call in [] if os.path.exists(sys.argv[1]) else calls:
    data = call.replace("FOLDER", os.getcwd()).encode()
    words = [environ["HOME"] if word == "HOME" else word for word in hooks[agent]]
    subprocess.run(words, input=data, env=environ, capture_output=True, check=True)
"""
HANG = """
with open(sys.argv[1], "w") as pipe: pipe.write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""

Start = Callable[..., Client]


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """Start a daemon with a program as its summarizer. The first argument is a file for notes."""
    clients: list[Client] = []

    def begin(code: str, *arguments: str, more: str = "") -> Client:
        program = write_program(home.folder, code)
        command = json.dumps([str(program), str(home.folder / "notes"), *arguments])
        home.configure(f"[summarizer]\nprovider = 'command'\ncommand = {command}\n{more}")
        home.serve()
        client = connect(home)
        clients.append(client)
        client.__enter__()
        return client

    yield begin
    for client in clients:
        client.__exit__(None, None, None)


def read_notes(home: Home) -> list[tuple[str, int]]:
    return [tuple(json.loads(line)) for line in (home.folder / "notes").read_text().splitlines()]


class TestWriting:
    def test_segments_and_periods_have_its_prose_and_checked_grips(
        self, home: Home, start: Start
    ) -> None:
        client = start(WRITER)
        client.ingest_all(TALK)
        toc = Toc(client)
        toc.settle()
        (segment,) = toc.segments()
        assert segment.title == "Rows lost by the nightly import"
        (bullet,) = segment.bullets
        assert bullet.text == "SKIP LOCKED was chosen"
        assert toc.expand(bullet.grip_ids[0]).grip.excerpt == "let's go with SKIP LOCKED"
        for node_id in ("toc:day:2024-07-03", "toc:month:2024-07", "toc:year:2024"):
            summary = toc.get_node(node_id).summary
            assert summary == "The nightly import was repaired. 1 session, 2 min."
        notes = read_notes(home)
        assert {folder for folder, _ in notes} == {str(home.data / "summarizer" / "toc")}
        if sys.platform == "linux":
            assert {nice for _, nice in notes} == {NICENESS}

    def test_it_answers_questions_too(self, home: Home, start: Start) -> None:
        client = start(WRITER)
        client.ingest_all(TALK)
        Toc(client).settle()
        home.hold_still()
        answer = home.run("memory", "recall", "--reason", "what did we choose for the import")
        assert answer.code == 0, answer
        assert "SKIP LOCKED was chosen." in answer.text
        folder, nice = read_notes(home)[-1]
        assert folder == str(home.data / "summarizer" / "questions")
        assert nice == os.nice(0)  # a person waits for it

    def test_status_and_doctor_show_it(self, home: Home, start: Start) -> None:
        start(WRITER)
        program = home.folder / "answer"
        assert home.status()["summarizer"] == f"command ({program})"
        assert f"Summarizer: command ({program})" in home.run("memory-daemon", "status").text
        assert f"command ({program})" in home.run("memory", "doctor").text
        program.unlink()
        assert "does not exist" in home.status()["warnings"][0]
        examined = home.run("memory", "doctor")
        assert "cannot run summarizer.command" in examined.text

    def test_config_set_takes_the_whole_line(self, home: Home) -> None:
        for words in (
            ("summarizer.command", 'claude -p --tools ""'),
            ("summarizer.provider", "command"),
        ):
            assert home.run_forked("memory", "config", "set", *words).code == 0
        assert home.run_forked(
            "memory", "config", "get", "summarizer.command", "--format", "json"
        ).json() == ["claude", "-p", "--tools", ""]

    def test_without_a_program_the_daemon_says_what_to_set(self, home: Home) -> None:
        home.configure("summarizer.provider = 'command'")
        home.serve()
        text = home.run("memory-daemon", "status").text
        assert "summaries are written without a model" in text
        assert 'memory config set summarizer.command "claude -p' in text


class TestFailing:
    def test_a_failing_program_delays_nothing_and_is_not_repeated(
        self, home: Home, start: Start
    ) -> None:
        client = start("open(sys.argv[1], 'a').write('x')\nsys.exit(sys.stdin.read())")
        client.ingest_all(TALK)
        toc = Toc(client)
        for _ in range(3):
            toc.settle()
        (segment,) = toc.segments()
        assert segment.bullets
        assert "ended with exit code 1" in home.log()
        assert (home.folder / "notes").read_text() == "x"
        assert "SKIP LOCKED" not in home.log()

    def test_the_budget_is_the_days(self, home: Home, start: Start) -> None:
        client = start(WRITER, more="daily_token_budget = 1000\n")
        client.ingest_all(TALK)
        toc = Toc(client)
        toc.settle()
        assert toc.segments()[0].bullets
        assert "daily token budget" in home.log()
        assert not (home.folder / "notes").exists()

    @pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
    def test_it_ends_with_the_daemon(self, home: Home, start: Start) -> None:
        pipe = home.folder / "notes"
        os.mkfifo(pipe)
        start(HANG).ingest_all(TALK)
        pid = int(pipe.read_text())
        home.stop()
        wait_for_end(pid)


class TestNoTrace:
    @pytest.mark.parametrize("environment", ["whole", "reduced"])
    def test_its_own_hooks_record_nothing(self, home: Home, start: Start, environment: str) -> None:
        client = start(AGENT + WRITER, environment)
        client.ingest_all(TALK)
        toc = Toc(client)
        toc.settle()
        assert toc.segments()[0].title == "Rows lost by the nightly import", home.log()
        assert {event.session_id for event in client.all_events()} == {"import"}
        assert not list((home.data / "spool").glob("*.json"))

    def test_the_same_hooks_elsewhere_are_recorded(self, home: Home, start: Start) -> None:
        client = start(WRITER)
        for agent, call in CALLS:
            data = call.replace("FOLDER", str(home.work)).encode()
            words = [str(home.folder) if word == "HOME" else word for word in HOOKS[agent]]
            assert home.run_words(words, given=data).code == 0
        recorded = {event.metadata["agent"] for event in client.all_events()}
        assert recorded == {agent for agent, _ in CALLS}

    def test_its_transcripts_are_not_imported(self, home: Home, start: Start) -> None:
        client = start(WRITER)
        own = home.data / "summarizer" / "toc"
        line = {
            "type": "user",
            "sessionId": "of-the-summarizer",
            "uuid": "u1",
            "cwd": str(own),
            "timestamp": "2026-01-01T10:00:00.000Z",
            "message": {"role": "user", "content": "You keep the table of contents."},
        }
        file = home.folder / ".claude" / "projects" / "own" / "1.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(line) + "\n")
        answer = home.run("memory", "import", "--from", "claude-code", "--output", "json")
        assert answer.json()["recorded"] == 0
        assert answer.json()["noise"] > 0
        assert client.all_events() == []
