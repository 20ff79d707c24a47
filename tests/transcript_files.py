"""Hand-written transcripts in the formats of agents, and a harness that imports them."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.adapters.transcripts.readers import build_readers
from agent_memory.features.hooks.consent_rule import build_consent
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.model.transcripts import TranscriptSource
from agent_memory.features.hooks.services.backfill import Backfill, BackfillResult
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.ids import Millis
from agent_memory.platform.ports import OrderedStore, Worker
from tests.inline_worker import InlineWorker

START_MS = 1_767_261_600_000  # 1 January 2026, 10:00
PARSERS = {"claude-code": ClaudeCodeTranscript, "codex": CodexTranscript, "jsonl": PlainTranscript}

# The first line of what follows a compaction in Claude Code, here without a summary.
CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context."
    " The summary below covers the earlier portion of the conversation."
)

Line = dict[str, Any]


def iso(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(path: Path, lines: Iterable[Line | str | bytes], *, end: bytes = b"\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(_bytes(line) for line in lines) + end)
    return path


def _bytes(line: Line | str | bytes) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


@dataclass
class Claude:
    """Claude Code's lines of one session, a second apart."""

    session: str = "5e5510a1"
    cwd: str = "/home/ada/projects/lighthouse"
    agent: str = ""
    at_ms: int = START_MS
    numbers: Iterable[int] = field(default_factory=count)

    def line(self, kind: str, **more: Any) -> Line:
        number = next(iter(self.numbers))
        found: Line = {
            "type": kind,
            "uuid": f"{self.session}-{self.agent}-{number}",
            "sessionId": self.session,
            "timestamp": iso(self.at_ms + number * 1000),
            "cwd": self.cwd,
            "gitBranch": "main",
            "isSidechain": bool(self.agent),
        }
        if self.agent:
            found["agentId"] = self.agent
        return found | more

    def prompt(self, text: Any, **more: Any) -> Line:
        return self.line("user", message={"role": "user", "content": text}, **more)

    def says(self, message: str, *blocks: Line) -> Line:
        said = {"id": message, "role": "assistant", "model": "claude-test", "content": [*blocks]}
        return self.line("assistant", message=said)

    def result(self, call: str, content: Any, **more: Any) -> Line:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, **more}
        return self.line("user", message={"role": "user", "content": [block]}, toolUseResult={})

    def noise(self) -> list[Line]:
        return [
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
            self.line("progress", data={"type": "hook_progress"}),
            self.line("system", subtype="turn_duration", durationMs=5),
            self.prompt("Caveat: local commands follow", isMeta=True),
            self.prompt(CONTINUED, isCompactSummary=True),
            self.prompt("<local-command-stdout>Set model</local-command-stdout>"),
            self.prompt("<command-name>/clear</command-name><command-args></command-args>"),
            self.prompt("[Request interrupted by user]"),
            self.says("thought", {"type": "thinking", "thinking": "Hmm, the lamp."}),
            self.line("from-the-future", payload=[1, 2]),
        ]

    def lamp(self) -> list[Line]:
        """Return a conversation of four events, with noise around it."""
        return [
            *self.noise(),
            self.prompt("Why does the lamp of the lighthouse flicker?", promptId="p1"),
            self.says("m1", text("I look at the dimmer.")),
            self.says("m1", tool_use("t1", "Read", file_path="/lighthouse/dimmer.py")),
            self.line("progress", data={}),
            self.result("t1", "def dim(volt): return volt * 0.93"),
            self.says("m2", text("The dimmer drops below the lamp's voltage: 0.93 is too low.")),
        ]


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def tool_use(call: str, name: str, **given: Any) -> Line:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def rollout(session: str = "0199aaaa-0000-7000-8000-00000000beef") -> list[Line]:
    """Return a session of Codex with four events."""
    numbers = count()

    def line(kind: str, **payload: Any) -> Line:
        return {"timestamp": iso(START_MS + next(numbers) * 1000), "type": kind, "payload": payload}

    def message(role: str, words: str) -> Line:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": words}]
        return line("response_item", type="message", role=role, content=content)

    return [
        line("session_meta", id=session, cwd="/home/ada/projects/canal", git={"branch": "locks"}),
        message("developer", "You are careful."),
        message("user", "<environment_context><cwd>/x</cwd></environment_context>"),
        line("turn_context", turn_id="turn-1", cwd="/home/ada/projects/canal", model="gpt-test"),
        message("user", "Which lock gates leak?"),
        line("event_msg", type="user_message", message="Which lock gates leak?"),
        line("response_item", type="reasoning", summary=[]),
        message("assistant", "I look into the list of gates."),
        line(
            "response_item",
            type="function_call",
            name="shell",
            call_id="c1",
            arguments=json.dumps({"command": ["bash", "-lc", "grep leak gates.csv"]}),
        ),
        line(
            "response_item",
            type="function_call_output",
            call_id="c1",
            output=json.dumps({"output": "gate 7: leak\n", "metadata": {"exit_code": 0}}),
        ),
        message("assistant", "Only gate 7 leaks."),
        line("compacted", message=""),  # the server keeps the summary
    ]


def plain(session: str = "talk") -> list[Line]:
    """Return a plain transcript with four events."""
    words = ("Is the mill open?", "Until six.", "And on Sunday?", "Closed, as ever.")
    return [
        {
            "session_id": session,
            "timestamp_ms": START_MS + number * 1000,
            "role": ("user", "assistant")[number % 2],
            "text": each,
        }
        for number, each in enumerate(words)
    ]


SAMPLES: Mapping[str, Callable[[], list[Line]]] = {
    "claude-code": lambda: Claude().lamp(),
    "codex": rollout,
    "jsonl": plain,
}


@cache
def _secrets() -> Re2Filter:
    """Build the filter once: it takes longer than most tests."""
    return Re2Filter(mode="redact")


class ImportHarness:
    """A backfill with its own store and folders."""

    def __init__(self, store: OrderedStore, data: Path, worker: Worker | None = None) -> None:
        self.log = StoredEventLog(store)
        self.record_count = 0
        self.environ = {"HOME": str(data)}  # of the user who imports
        here = worker or InlineWorker()
        repositories = GitRepositories(data)
        self.backfill = Backfill(
            transcripts=build_readers(here),
            ingest=Ingest(log=self.log, secrets=_secrets(), on_record=self._on_record),
            resolver=ProjectResolver(
                repositories=repositories,
                projects=StoredProjects(store),
                shared=OrgRepository(),
                secrets=PassThrough(),
            ),
            consent=build_consent(data),
            step_back=lambda: lambda: None,
            excluded=ExcludedFolder(frozenset({data / "summarizer"})),
        )

    def __call__(self, agent: str, place: Path, *, dry_run: bool = False) -> BackfillResult:
        return self.bring(agent, self.backfill.list_sources(agent, str(place)), dry_run=dry_run)

    def bring(
        self, agent: str, sources: list[TranscriptSource], *, dry_run: bool = False
    ) -> BackfillResult:
        return self.backfill.import_sources(
            agent,
            sources,
            environ=self.environ,
            dry_run=dry_run,
            on_progress=lambda _: None,
        )

    def events(self) -> list[Event]:
        found: list[Event] = []
        after = None
        while True:
            page = self.log.list_between(
                Millis(0), Millis(9_999_999_999_999), after=after, limit=1000
            )
            found += page.events
            after = page.next
            if after is None:
                return found

    def list_texts(self) -> list[tuple[str, str]]:
        return [(event.role.name.lower(), event.text) for event in self.events() if event.text]

    def _on_record(self) -> None:
        self.record_count += 1
