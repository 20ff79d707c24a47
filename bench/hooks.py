"""What a hook costs an agent: `python -m bench.hooks`, interleaved with a bare interpreter.

On daemons that hold 100,000 events and 1,000 memories, in each of the states of bench.states. Then
again while a program imports 20,000 events into the one that has a backlog. A speaking hook is one
that gives the agent a lesson of an earlier session: each call is of a new session.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent_memory import launch
from agent_memory.client import Event, EventRole, EventType
from bench import results, states
from bench.launch import BARE, percentile, run, verdict
from bench.processes import Daemon, at_home
from bench.results import Table
from bench.states import BACKLOG, IDLE

COMMAND = (sys.executable, "-I", "-S", launch.__file__, "memory")
HOOK = (*COMMAND, "hook", "auto")
IMPORTED = 20_000
MEMORIES = 1_000
PROJECT = "project"  # a repository in the folder of each daemon: a frozen one may hold a lock in it
WORDS = ("parser", "index", "token", "cache", "queue", "schema", "retry", "lexer", "store", "merge")
SPEAKING, SILENT = ", speaking", ", silent"
# At the median, in times of a bare interpreter; and at p99, in milliseconds: 004 5.5.
GOALS = {
    "UserPromptSubmit": (1.6, 50),  # they suggest a capture
    f"UserPromptSubmit{SILENT}": (1.6, 50),
    "PreToolUse": (None, 100),
    f"PreToolUse{SPEAKING}": (None, 100),
    "PostToolUse": (2.0, 100),  # most of them speak, of memories about the file
    f"PostToolUse{SILENT}": (2.0, 100),
    "PostToolUseFailure": (2.0, 100),
    f"PostToolUseFailure{SPEAKING}": (None, 100),
    "SessionStart": (None, 2000),
    "PreCompact": (None, 500),
    "Stop": (None, 5000),
}
# A silent hook before a tool, in times of the one after it.
BEFORE, AFTER, MOST_BEFORE = "PreToolUse", f"PostToolUse{SILENT}", 1.3
BUSY_MS = 100
BLOCK = 5  # calls of each hook before it is the next daemon's turn
BARE_NAME = "bare interpreter"
IMPORT = "during an import"
# What an earlier session teaches, and the command that it is about.
RULE = "Please never use poetry in this repository, add packages with uv instead."
COMMAND_OF_RULE = "poetry add httpx"
FAILING, ERROR = "make parser-docs", "sphinx.errors.ExtensionError: no module named myst_lexer"
MENDING = "uv add --dev myst-lexer && make parser-docs"

DAY_MS = 86_400_000


@dataclass(slots=True)
class HookTimes:
    """The seconds of each call of a hook, and how many calls gave the agent something."""

    seconds: list[float] = field(default_factory=list)
    spoken: int = 0


Times = dict[str, HookTimes]  # by hook


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = results.parse_options(parser, events=2_000, rounds=10)
    with tempfile.TemporaryDirectory(prefix="am-") as name:
        store = Path(name) / "store"
        create_project(store / PROJECT)
        with Daemon(store, states.WORDS_ALONE) as daemon:
            fill(daemon, options.events)
        with states.open_states(store) as subjects:
            shutil.rmtree(store / PROJECT)  # its copies now count as the same project, moved
            times = measure_states(subjects, options.rounds)
            end = states.describe_end(subjects)
            with subjects[BACKLOG].turn() as daemon, import_past(daemon, store) as running:
                times[IMPORT] = start_times()
                for number in range(options.rounds):
                    if running.poll() is not None:
                        break
                    measure(times[IMPORT], daemon, number)
    by_hook = {
        hook: {state: times[state][hook].seconds for state in subjects}
        for hook in (BARE_NAME, *GOALS)
    }
    rows, groups = states.compare(by_hook, judged=GOALS)
    title = f"bench.hooks, {options.events:,} events"
    head = ("", "calls", "spoke", "median ms", "p99 ms", "x bare", "goal")
    shown = [
        Table(title, head, list_rows(times)),
        Table(f"{title}; {end}", states.HEAD, rows),
    ]
    results.report(options, "hooks", shown, [states.plot("hooks", "Hooks", groups)])


def list_rows(times: Mapping[str, Times]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for state, by_hook in times.items():
        if not by_hook[BARE_NAME].seconds:
            continue  # the import ended before a first call
        bare = statistics.median(by_hook[BARE_NAME].seconds)
        for name, each in by_hook.items():
            values = each.seconds
            rows.append(
                [
                    f"{state}: {name}",
                    str(len(values)),
                    str(each.spoken),
                    f"{statistics.median(values) * 1000:.1f}",
                    f"{percentile(values, 0.99) * 1000:.1f}",
                    f"{statistics.median(values) / bare:.2f}",
                    goal(state, name, by_hook, bare),
                ]
            )
        rows.append([])
    return rows[:-1]


def goal(state: str, name: str, by_hook: Times, bare: float) -> str:
    if name not in GOALS:
        return ""
    values = by_hook[name].seconds
    p99 = percentile(values, 0.99) * 1000
    if state != IDLE:
        return verdict(f"p99 <= {BUSY_MS} ms", p99 <= BUSY_MS)
    times, millis = GOALS[name]
    told = [verdict(f"p99 <= {millis} ms", p99 <= millis)]
    if times is not None:
        told.insert(0, verdict(f"<= {times} x", statistics.median(values) / bare <= times))
    if name == BEFORE:
        after = statistics.median(by_hook[AFTER].seconds)
        held = statistics.median(values) <= MOST_BEFORE * after
        told.insert(0, verdict(f"<= {MOST_BEFORE} x {AFTER}", held))
    return ", ".join(told)


def measure_states(subjects: Mapping[str, states.Subject], rounds: int) -> dict[str, Times]:
    for _, daemon in states.take_turns(subjects, 1):
        measure(start_times(), daemon, 0)  # not counted: first calls load code
    times = {state: start_times() for state in subjects}
    numbers = dict.fromkeys(subjects, 0)
    for state, daemon in states.take_turns(subjects, -(-rounds // BLOCK)):
        for _ in range(BLOCK):
            measure(times[state], daemon, numbers[state])
            numbers[state] += 1
    return times


def start_times() -> Times:
    return {name: HookTimes() for name in (BARE_NAME, *GOALS)}


def measure(times: Times, daemon: Daemon, number: int) -> None:
    """Time the bare interpreter and each hook once."""
    project = daemon.folder / PROJECT
    environ = {**os.environ, **daemon.environ}
    for name, each in times.items():
        bare = name == BARE_NAME
        given = b"" if bare else json.dumps(build_call(name, number, project)).encode()
        started = time.perf_counter()
        ran = subprocess.run(
            BARE if bare else at_home(HOOK, daemon.folder),
            input=given,
            env=environ,
            check=True,
            stdout=subprocess.PIPE,
        )
        each.seconds.append(time.perf_counter() - started)
        each.spoken += b"additionalContext" in ran.stdout


def build_call(name: str, number: int, project: Path) -> dict[str, object]:
    words = f"{WORDS[number % 10]} {WORDS[number // 10 % 10]}"
    speaking, silent = name.endswith(SPEAKING), name.endswith(SILENT)
    name = name.partition(",")[0]
    # A lesson is given once in a session.
    fresh = speaking or name == "SessionStart"
    common: dict[str, object] = {
        "session_id": f"bench-{time.time_ns() if fresh else number // 20}",
        "transcript_path": str(project / "transcript.jsonl"),
        "cwd": str(project),
        "hook_event_name": name,
    }
    if name == "UserPromptSubmit":
        slow = f"The {words} is slow since yesterday. Let's use a heap for it."
        return {**common, "prompt": f"Sort the {words}." if silent else slow}
    if name == "PreToolUse" or (name == "PostToolUse" and silent):
        command = COMMAND_OF_RULE if speaking else f"git log --oneline {words}"
        call = {**common, **build_use("Bash", {"command": command})}
        if silent:
            call["tool_response"] = {"stdout": "1f0c2aa Count the words\n" * 60}
        return call
    if name == "PostToolUseFailure":
        command = FAILING if speaking else f"make {words}"
        error = ERROR if speaking else f"make: no rule to make target '{words}'"
        return {**common, **build_use("Bash", {"command": command}), "error": error}
    if name == "PostToolUse":
        return {
            **common,
            **build_use("Read", {"file_path": str(project / f"src/{WORDS[number % 10]}.py")}),
            "tool_response": {
                "type": "text",
                "file": {"content": "def work(): ...\n" * 60},
            },
        }
    if name == "Stop":
        return {**common, "last_assistant_message": f"The {words} is done, and all tests pass."}
    return {**common, "source": "startup", "trigger": "auto"}


def build_use(tool: str, arguments: Mapping[str, str]) -> dict[str, object]:
    return {
        "tool_name": tool,
        "tool_use_id": f"use-{time.time_ns()}",
        "tool_input": arguments,
    }


def create_project(folder: Path) -> None:
    folder.mkdir(parents=True)
    author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    git = ("git", *author, "-C", str(folder))
    run([*git, "init"])
    run([*git, "commit", "--allow-empty", "-m", "first"])


def fill(daemon: Daemon, events: int) -> None:
    """Conversations, memories about the same things, and a session that teaches something."""
    started = time.time_ns() // 1_000_000 - events * 60_000
    with daemon.connect() as memory:
        memory.ingest_batch(
            Event(
                session_id=f"past-{number // 200}",
                timestamp=started + number * 60_000,
                event_type=(EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE)[number % 2],
                role=(EventRole.USER, EventRole.ASSISTANT)[number % 2],
                text=f"The {WORDS[number % 10]} of part {number // 10} and its"
                f" {WORDS[number // 7 % 10]}: what we saw in run {number}.",
                metadata={"project": "project"},
            )
            for number in range(events)
        )
        memory.ingest_batch(teach(time.time_ns() // 1_000_000 - DAY_MS))
    lines = []
    for number in range(MEMORIES):
        about, other = WORDS[number % 10], WORDS[number // 10 % 10]
        namespace = ("decisions", "learnings", "patterns")[number % 3]
        summary = f"The {about} of part {number} uses a {other}"
        lines.append(json.dumps({"namespace": namespace, "summary": summary}) + "\n")
    file = daemon.folder / "memories.jsonl"
    file.write_text("".join(lines))
    words = ("import", str(file), "--from-format", "jsonl")
    daemon.output("memory", *words, cwd=daemon.folder / PROJECT)
    states.catch_up(daemon, states.JOBS)


def teach(at_ms: int) -> Iterator[Event]:
    """Yield a session with a rule of its user, and a command that failed until it was mended."""
    user, agent, tool = EventRole.USER, EventRole.ASSISTANT, EventRole.TOOL
    said, answered, ran = (
        EventType.USER_MESSAGE,
        EventType.ASSISTANT_MESSAGE,
        EventType.TOOL_RESULT,
    )
    turns: tuple[tuple[EventType, EventRole, str, dict[str, str]], ...] = (
        (said, user, RULE, {}),
        (answered, agent, "Understood: packages are added with uv.", {}),
        (said, user, "The docs of the parser do not build. Please mend that.", {}),
        (ran, tool, f"Bash: {FAILING}\n{ERROR}", {"tool_name": "Bash", "error": "true"}),
        (ran, tool, f"Bash: {MENDING}\nbuild succeeded.", {"tool_name": "Bash"}),
        (answered, agent, "The docs build again: the extension myst-lexer was missing.", {}),
    )
    for number, (kind, role, text, metadata) in enumerate(turns):
        yield Event(
            session_id="taught",
            timestamp=at_ms + number * 1_000,
            event_type=kind,
            role=role,
            text=text,
            metadata={"project": "project", **metadata},
        )


@contextmanager
def import_past(daemon: Daemon, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    file = folder / "past.jsonl"
    with file.open("w") as lines:
        for number in range(IMPORTED):
            line = {
                "session_id": f"old-{number // 100}",
                "timestamp_ms": 1_700_000_000_000 + number * 30_000,
                "role": ("user", "assistant")[number % 2],
                "text": f"Line {number} of what was said about the {WORDS[number % 10]}. " * 5,
            }
            lines.write(json.dumps(line) + "\n")
    running = subprocess.Popen(
        at_home([*COMMAND, "import", "--from", "jsonl", str(file)], daemon.folder),
        env={**os.environ, **daemon.environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


if __name__ == "__main__":
    main()
