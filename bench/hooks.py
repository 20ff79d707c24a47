"""What a hook costs an agent: `python -m bench.hooks`, interleaved with a bare interpreter.

On a warm daemon that holds 100,000 events and 1,000 memories: quiet, with everything embedded that
ever will be (nothing, to save the hour that 100,000 embeddings take; hooks ask for none). And again
with the embedder at work on all of it, which takes a core, while 20,000 events are imported.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_memory import launch
from agent_memory.client import Event, EventRole, EventType, MemoryClient
from bench.launch import BARE, isolated, percentile, run, verdict
from bench.tables import render

COMMANDS = Path(sys.executable).parent
HOOK = (sys.executable, "-I", "-S", launch.__file__, "memory", "hook", "auto")
BACKFILL = 20_000
MEMORIES = 1_000
WORDS = ("parser", "index", "token", "cache", "queue", "schema", "retry", "lexer", "store", "merge")
# At the median, in times of a bare interpreter; and at p99, in milliseconds: 004 5.5.
GOALS = {
    "UserPromptSubmit": (1.6, 50),
    "PostToolUse": (2.0, 100),
    "SessionStart": (None, 2000),
    "PreCompact": (None, 500),
    "Stop": (None, 5000),
}
BUSY_MS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with isolated() as folder:
        project = folder / "project"
        project.mkdir()
        author = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        git = ("git", *author, "-C", str(project))
        run([*git, "init"])
        run([*git, "commit", "--allow-empty", "-m", "first"])
        with daemon(embedder="none"):
            fill(options.events, project)
            quiet = measure(options.rounds, project)
        with daemon(embedder="bge"), warm(), backfill(folder) as running:
            busy = measure(options.rounds, project, until=lambda: running.poll() is not None)
    rows: list[Sequence[str]] = []
    for title, times in (("quiet", quiet), ("during a backfill", busy)):
        bare = statistics.median(times["bare"])
        for name, values in times.items():
            rows.append(
                [
                    f"{title}: {name}",
                    str(len(values)),
                    f"{statistics.median(values) * 1000:.1f}",
                    f"{percentile(values, 0.99) * 1000:.1f}",
                    f"{statistics.median(values) / bare:.2f}",
                    goal(title, name, values, bare),
                ]
            )
        rows.append([])
    head = ["", "calls", "median ms", "p99 ms", "x bare", "goal"]
    sys.stdout.write(render(f"bench.hooks, {options.events} events", head, rows[:-1]))


@contextmanager
def daemon(*, embedder: str) -> Iterator[None]:
    os.environ["MEMORY_EMBEDDER__PROVIDER"] = embedder
    run([str(COMMANDS / "memory-daemon"), "start"])
    try:
        yield
    finally:
        run([str(COMMANDS / "memory-daemon"), "stop"])


@contextmanager
def warm() -> Iterator[None]:
    """With the embedder's model loaded, which takes 0.3 s of every daemon's life."""
    run([str(COMMANDS / "memory"), "recall", "a question to be embedded"])
    yield


def goal(title: str, name: str, values: Sequence[float], bare: float) -> str:
    if name not in GOALS:
        return ""
    p99 = percentile(values, 0.99) * 1000
    if title != "quiet":
        return verdict(f"p99 <= {BUSY_MS} ms", p99 <= BUSY_MS)
    times, millis = GOALS[name]
    told = [verdict(f"p99 <= {millis} ms", p99 <= millis)]
    if times is not None:
        told.insert(0, verdict(f"<= {times} x", statistics.median(values) / bare <= times))
    return ", ".join(told)


def measure(
    rounds: int, project: Path, until: Callable[[], bool] = lambda: False
) -> dict[str, list[float]]:
    """Time the bare interpreter and each hook in turn."""
    times: dict[str, list[float]] = {"bare": [], **{name: [] for name in GOALS}}
    for number in range(rounds):
        if until():
            break
        for name, values in times.items():
            given = b"" if name == "bare" else json.dumps(told(name, number, project)).encode()
            started = time.perf_counter()
            subprocess.run(
                BARE if name == "bare" else HOOK, input=given, check=True, stdout=subprocess.DEVNULL
            )
            values.append(time.perf_counter() - started)
    return times


def told(name: str, number: int, project: Path) -> dict[str, object]:
    words = f"{WORDS[number % 10]} {WORDS[number // 10 % 10]}"
    common: dict[str, object] = {
        "session_id": f"bench-{time.time_ns() if name == 'SessionStart' else number // 20}",
        "transcript_path": str(project / "transcript.jsonl"),
        "cwd": str(project),
        "hook_event_name": name,
    }
    if name == "UserPromptSubmit":
        return {
            **common,
            "prompt": f"The {words} is slow since yesterday. Let's use a heap for it.",
        }
    if name == "PostToolUse":
        return {
            **common,
            "tool_name": "Read",
            "tool_use_id": f"use-{time.time_ns()}",
            "tool_input": {"file_path": str(project / f"src/{WORDS[number % 10]}.py")},
            "tool_response": {
                "type": "text",
                "file": {"content": "def work(): ...\n" * 60},
            },
        }
    if name == "Stop":
        return {**common, "last_assistant_message": f"The {words} is done, and all tests pass."}
    return {**common, "source": "startup", "trigger": "auto"}


def fill(events: int, project: Path) -> None:
    """Conversations, and memories about the same things."""
    started = time.time_ns() // 1_000_000 - events * 60_000
    with MemoryClient.connect_default() as memory:
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
    lines = []
    for number in range(MEMORIES):
        about, other = WORDS[number % 10], WORDS[number // 10 % 10]
        namespace = ("decisions", "learnings", "patterns")[number % 3]
        summary = f"The {about} of part {number} uses a {other}"
        lines.append(json.dumps({"namespace": namespace, "summary": summary}) + "\n")
    file = project.parent / "memories.jsonl"
    file.write_text("".join(lines))
    subprocess.run(
        [COMMANDS / "memory", "import", file, "--format", "jsonl"],
        check=True,
        cwd=project,
        stdout=subprocess.DEVNULL,
    )
    for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
        run([str(COMMANDS / "memory-daemon"), "scheduler", "run", job])


@contextmanager
def backfill(folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    file = folder / "past.jsonl"
    with file.open("w") as lines:
        for number in range(BACKFILL):
            line = {
                "session_id": f"old-{number // 100}",
                "timestamp_ms": 1_700_000_000_000 + number * 30_000,
                "role": ("user", "assistant")[number % 2],
                "text": f"Line {number} of what was said about the {WORDS[number % 10]}. " * 5,
            }
            lines.write(json.dumps(line) + "\n")
    running = subprocess.Popen(
        [COMMANDS / "memory", "import", "--from", "jsonl", file],
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
