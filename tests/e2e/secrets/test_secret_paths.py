"""Every way into the store, with a secret in every field: none is in any byte that is kept.

The secrets are made here, one for each field, so that a leak names its way in.
"""

import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
import pytest

from agent_memory.features.backups.interfaces import archive
from agent_memory.features.backups.services.archiving import (
    ArchiveRecord,
    MemoryRecord,
)
from agent_memory.features.checkpoints.archive_records import WriteRecord
from agent_memory.features.checkpoints.model import graphs
from agent_memory.features.knowledge.model.facts import Fact, Former
from agent_memory.features.knowledge.model.procedures import Chain, Procedure, Step
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession
from agent_memory.features.knowledge.model.sessions import ChainTally, NonRunActivity, Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.tiers import MemoryUse
from agent_memory.kernel.ids import USER, KnowledgeId, Millis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from agent_memory.proto import checkpoints_pb2, memory_pb2
from tests import graph_values
from tests.chosen_store import open_left_store
from tests.command_runner import Home, wait_until
from tests.contract.stores import everything, unexpected
from tests.git_repositories import make_repository
from tests.hook_inputs import encode_claude
from tests.http_client import Web
from tests.memory_client import Client
from tests.memory_commands import INVALID, OK, MemoryCommand
from tests.search_client import connect

AT = 1_772_000_000_000
CONTROL = "marigold-abacus"
_random = random.Random(16)


def token() -> str:
    return "ghp_" + "".join(_random.choices(string.ascii_letters + string.digits, k=36))


@dataclass(frozen=True, slots=True)
class Ways:
    """A daemon, and everything that speaks with it."""

    home: Home
    client: Client
    web: Web
    folder: Path

    def capture_of(self, event_id: str) -> None:
        self.event("linked", event_id=event_id)
        self.memory("capture", "decisions", "Linked", "--event", event_id)

    def event(self, name: str, **fields: Any) -> None:
        given = {
            "event_id": f"e-{name}",
            "session_id": "s",
            "timestamp_ms": AT,
            "event_type": memory_pb2.EVENT_TYPE_USER_MESSAGE,
            "role": memory_pb2.EVENT_ROLE_USER,
            "text": f"{CONTROL} {name}",
            **fields,
        }
        assert self.client.ingest(memory_pb2.Event(**given)).created
        again = self.client.ingest(memory_pb2.Event(**given))
        assert not again.created, "the same id is the same event"

    def hook(self, event: str, here: Path | None = None, **fields: Any) -> None:
        here = here or self.folder
        given = {"session": "hooked", "folder": here, **fields}
        answer = self.home.run(
            "memory", "hook", "auto", given=encode_claude(event, **given), cwd=here
        )
        assert (answer.code, answer.errors) == (OK, ""), answer

    def post(self, path: str, body: dict[str, Any]) -> None:
        answer = self.web.ask("POST", f"/api/v1/memories/{path}/", json=body)
        assert answer.status_code == 201, answer.text

    def memory(self, *words: str, given: bytes = b"", code: int = OK) -> None:
        answer = MemoryCommand(self.home, self.folder)(*words, given=given)
        assert answer.code == code, answer

    def transcript(self, name: str, **fields: Any) -> None:
        path = self.home.work / f"{name}.jsonl"
        line = {"session_id": "t", "timestamp_ms": AT, "role": "user", "text": name, **fields}
        path.write_text(json.dumps(line) + "\n")
        self.memory("import", "--from", "jsonl", str(path))

    def archive(self, record: ArchiveRecord, *, taken: bool = True) -> None:
        path = self.home.work / "archive.jsonl"
        path.write_text(archive.header("0", Millis(1)) + archive.line(record))
        answer = MemoryCommand(self.home, self.folder)("import", str(path), "--output", "json")
        assert answer.code == (OK if taken else INVALID), answer
        assert sum(answer.json()["taken"].values()) == taken, answer

    def checkpoint(self, **fields: Any) -> None:
        whole = {"thread_id": "t", "checkpoint_id": "c", "metadata": "{}", "type": "x", **fields}
        request = checkpoints_pb2.PutCheckpointRequest(
            checkpoint=checkpoints_pb2.GraphCheckpoint(**whole)
        )
        path = "/memory.CheckpointService/PutCheckpoint"
        self.client.unary(path, request, checkpoints_pb2.PutCheckpointResponse)
        wanted = checkpoints_pb2.GetCheckpointRequest(
            thread_id=whole["thread_id"],
            checkpoint_ns=whole.get("checkpoint_ns", ""),
            checkpoint_id=whole["checkpoint_id"],
        )
        path = "/memory.CheckpointService/GetCheckpoint"
        found = self.client.unary(path, wanted, checkpoints_pb2.GetCheckpointResponse)
        assert found.HasField("snapshot"), "it is found by the ids that it was put under"

    def write(self, **fields: Any) -> None:
        write = {"task_id": "w", "index": 0, "channel": "c", "type": "x", **fields}
        request = checkpoints_pb2.PutWritesRequest(
            thread_id="t",
            checkpoint_id="c",
            writes=[checkpoints_pb2.PendingWrite(**write)],
        )
        path = "/memory.CheckpointService/PutWrites"
        self.client.unary(path, request, checkpoints_pb2.PutWritesResponse)


Way = Callable[[Ways, str], object]
EPISODE = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}


def _in_a_folder(ways: Ways, secret: str) -> Path:
    folder = ways.home.work / secret
    folder.mkdir()
    return folder


def _captured_in(ways: Ways, folder: Path) -> None:
    answer = MemoryCommand(ways.home, folder)("capture", "decisions", "One that is refused")
    assert (answer.code, "holds a secret" in answer.errors) == (INVALID, True), answer


WAYS: dict[str, Way] = {
    "grpc text": lambda w, s: w.event("text", text=f"use {s}"),
    "grpc wrapped text": lambda w, s: w.event("wrapped", text=f"log\x1b[31m{s}\x1b[0m"),
    "grpc event id": lambda w, s: w.event("id", event_id=s),
    "grpc session id": lambda w, s: w.event("session", session_id=f"of-{s}/agent"),
    "grpc metadata key": lambda w, s: w.event("key", metadata={s: "x"}),
    "grpc metadata value": lambda w, s: w.event("value", metadata={"x": s}),
    "hook prompt": lambda w, s: w.hook("UserPromptSubmit", prompt=f"use {s}"),
    "hook session id": lambda w, s: w.hook("UserPromptSubmit", session=s, prompt="Hello?"),
    "hook prompt id": lambda w, s: w.hook("UserPromptSubmit", prompt="Hello.", prompt_id=s),
    "hook tool name": lambda w, s: w.hook("PostToolUse/Bash", tool_name=f"mcp__x__{s}"),
    "hook tool use id": lambda w, s: w.hook("PostToolUse/Bash", tool_use_id=s),
    "hook file": lambda w, s: w.hook(
        "PostToolUse/Read", tool_input={"file_path": f"/srv/{s}/a.py"}
    ),
    "hook folder": lambda w, s: w.hook("UserPromptSubmit", _in_a_folder(w, s), prompt="Where?"),
    "hook in a folder that is gone": lambda w, s: w.hook(
        "UserPromptSubmit", prompt="Gone?", folder=f"/nowhere/{s}"
    ),
    "hook agent id": lambda w, s: w.hook("SubagentStop", agent_id=s),
    "capture summary": lambda w, s: w.memory("capture", "decisions", f"Use {s}"),
    "capture content": lambda w, s: w.memory("capture", "decisions", "Some", given=s.encode()),
    "capture tag": lambda w, s: w.memory("capture", "decisions", "Tagged", "--tags", s),
    "capture spec": lambda w, s: w.memory("capture", "decisions", "Specified", "--spec", s),
    "capture in a folder": lambda w, s: _captured_in(w, _in_a_folder(w, s)),
    "capture of an event": lambda w, s: w.capture_of(s),
    "import text": lambda w, s: w.transcript("a", text=f"use {s}"),
    "import session": lambda w, s: w.transcript("b", session_id=s),
    "import event id": lambda w, s: w.transcript("c", event_id=s),
    "import metadata key": lambda w, s: w.transcript("d", metadata={s: "x"}),
    "import path": lambda w, s: w.transcript(s, text="of a file with a secret name"),
    "fact key": lambda w, s: w.post("facts", {"key": s, "value": "x"}),
    "fact value": lambda w, s: w.post("facts", {"key": "k", "value": s}),
    "fact scope": lambda w, s: w.post("facts", {"key": "k", "value": "x", "scope": s}),
    "fact agent": lambda w, s: w.post("facts", {"key": "k", "value": "x", "agent_id": s}),
    "fact user": lambda w, s: w.post("facts", {"key": "k", "value": "x", "user_id": s}),
    "fact type": lambda w, s: w.post("facts", {"key": "k2", "value": "x", "fact_type": s}),
    "episode summary": lambda w, s: w.post("episodes", {**EPISODE, "summary": s}),
    "episode session": lambda w, s: w.post("episodes", {**EPISODE, "session_id": s}),
    "episode agent": lambda w, s: w.post("episodes", {**EPISODE, "agent_id": s}),
    "episode error": lambda w, s: w.post(
        "episodes", {**EPISODE, "error_code": s, "success": False}
    ),
    "procedure name": lambda w, s: w.post("procedures", {"name": s}),
    "procedure steps": lambda w, s: w.post("procedures", {"name": "p", "steps": [s]}),
    "user": lambda w, s: w.post("users", {"canonical_id": s}),
    "user name": lambda w, s: w.post("users", {"canonical_id": "u", "display_name": s}),
    "audit log": lambda w, s: w.web.ask("DELETE", f"/api/v1/memories/facts/{s}/"),
    "audit log, encoded": lambda w, s: w.web.ask("DELETE", f"/api/v1/x%22{s}%22/"),
    "checkpoint thread": lambda w, s: w.checkpoint(thread_id=s),
    "checkpoint namespace": lambda w, s: w.checkpoint(checkpoint_ns=s),
    "checkpoint id": lambda w, s: w.checkpoint(checkpoint_id=s),
    "checkpoint parent": lambda w, s: w.checkpoint(parent_checkpoint_id=s),
    "checkpoint metadata": lambda w, s: w.checkpoint(metadata=json.dumps({"a": {"b": [s]}})),
    "checkpoint metadata key": lambda w, s: w.checkpoint(metadata=json.dumps({s: 1})),
    "checkpoint run": lambda w, s: w.checkpoint(metadata=json.dumps({"run_id": s})),
    "checkpoint channel": lambda w, s: w.write(channel=s),
    "checkpoint task": lambda w, s: w.write(task_id=s),
    "checkpoint path": lambda w, s: w.write(task_path=s),
}


def _new_id() -> KnowledgeId:
    return KnowledgeId(str(uuid.UUID(int=_random.getrandbits(128))))


def _memory(
    summary: str = "Kept", content: str = "", spec: str = "", **fields: Any
) -> ArchiveRecord:
    content = content or str(_random.random())
    created = memories.Memory(
        digest=memories.compute_digest("decisions", summary, content, spec),
        namespace="decisions",
        domain=USER,
        summary=summary,
        content=content,
        spec=spec,
        created_ms=Millis(AT),
        updated_ms=Millis(AT),
        **fields,
    )
    return MemoryRecord(memory=created, use=MemoryUse())


def _fact(**fields: Any) -> ArchiveRecord:
    times = dict.fromkeys(("created_ms", "updated_ms", "valued_ms"), Millis(AT))
    return Fact(**{"id": _new_id(), "key": "k", "value": "x", **times, **fields})


def _former(**fields: Any) -> ArchiveRecord:
    known = {"id": _new_id(), "fact_id": _new_id(), "value": "x", "fact_type": "fact"}
    counts = {"number": 0, "confidence": 0.5, "times_confirmed": 1, "since_ms": 1, "until_ms": 2}
    return Former(**{**known, **counts, **fields})


def _user(**fields: Any) -> ArchiveRecord:
    return User(**{"id": _new_id(), "canonical_id": "u", "created_ms": AT, **fields})


def _procedure(**fields: Any) -> ArchiveRecord:
    known = {"id": _new_id(), "agent_id": "a", "name": "p", "created_ms": AT}
    return Procedure(**{**known, **fields})


def _chain(**fields: Any) -> ArchiveRecord:
    known = {"id": _new_id(), "agent_id": "a", "steps": ("x",), "created_ms": AT}
    return Chain(**{**known, "used": 1, "succeeded": 1, **fields})


def _session(kind: type[Any] = Session, **fields: Any) -> ArchiveRecord:
    known = {"id": _new_id(), "session_id": "s", "last_event_id": "e"}
    created: ArchiveRecord = kind(**{**known, "started_ms": AT, "last_ms": AT, **fields})
    return created


def _run_session(**fields: Any) -> ArchiveRecord:
    known = {"id": _new_id(), "session_id": "s", "agent": "a", "summary": "x", "last_run": "r"}
    return RunSession(**{**known, "first_ms": AT, "last_ms": AT, "runs": 1, **fields})


def _write(thread: str = "archived", **fields: Any) -> ArchiveRecord:
    known = {"task_id": "w", "index": 0, "channel": "c", "type": "x", "value": b"x"}
    return WriteRecord(
        place=graph_values.place(thread, str(_random.random())),
        write=graphs.PendingWrite(**{**known, **fields}),
    )


ARCHIVED: dict[str, Callable[[str], ArchiveRecord]] = {
    "memory summary": lambda s: _memory(f"Use {s}"),
    "memory content": lambda s: _memory(content=s),
    "memory spec": lambda s: _memory(spec=s),
    "memory tag": lambda s: _memory(tags=frozenset({s})),
    "memory event": lambda s: _memory(event_id=s),
    "memory session": lambda s: _memory(session_id=s),
    "tombstone": lambda s: _memory(f"Use {s}", status=memories.MemoryStatus.TOMBSTONE),
    "fact id": lambda s: _fact(id=s),
    "fact key": lambda s: _fact(key=s),
    "fact value": lambda s: _fact(value=s),
    "fact scope": lambda s: _fact(scope=s),
    "fact agent": lambda s: _fact(agent_id=s),
    "fact user": lambda s: _fact(user_id=s),
    "fact type": lambda s: _fact(fact_type=s),
    "former fact": lambda s: _former(value=s),
    "former fact of": lambda s: _former(fact_id=s),
    "former fact type": lambda s: _former(fact_type=s),
    "user": lambda s: _user(canonical_id=s),
    "user name": lambda s: _user(display_name=s),
    "user email": lambda s: _user(email=s),
    "user telegram": lambda s: _user(telegram_id=s),
    "user fields": lambda s: _user(fixed=frozenset({s})),
    "procedure name": lambda s: _procedure(name=s),
    "procedure steps": lambda s: _procedure(steps=(s,)),
    "procedure agent": lambda s: _procedure(agent_id=s),
    "chain agent": lambda s: _chain(agent_id=s),
    "chain steps": lambda s: _chain(steps=("x", s)),
    "session": lambda s: _session(session_id=s),
    "session event": lambda s: _session(last_event_id=s),
    "session agent": lambda s: _session(agent=s),
    "session user": lambda s: _session(user=s),
    "session speaker": lambda s: _session(speaker=s),
    "session project": lambda s: _session(project=s),
    "session summary": lambda s: _session(summary=s),
    "session steps": lambda s: _session(steps=(Step(tool="bash", command=s),)),
    "session chains": lambda s: _session(chains={"c": ChainTally(steps=(s,))}),
    "session chain": lambda s: _session(chains={s: ChainTally(steps=("x",))}),
    "session beside": lambda s: _session(
        beside=NonRunActivity(started_ms=Millis(AT), last_ms=Millis(AT), trigger=s, summary=s)
    ),
    "run": lambda s: _session(Run, run_id=s),
    "run outcome": lambda s: _session(Run, run_id="r", outcome=s),
    "run session": lambda s: _run_session(last_run=s),
    "run session summary": lambda s: _run_session(summary=s),
    "checkpoint thread": graph_values.checkpoint,
    "checkpoint id": lambda s: graph_values.checkpoint("archived", s),
    "checkpoint namespace": lambda s: graph_values.checkpoint("archived", "c", s),
    "checkpoint parent": lambda s: graph_values.checkpoint("archived", "p", parent=s),
    "checkpoint metadata": lambda s: graph_values.checkpoint("archived", "m", about={"a": [s]}),
    "write thread": _write,
    "write channel": lambda s: _write(channel=s),
    "write task": lambda s: _write(task_id=s),
    "write path": lambda s: _write(task_path=s),
}


def _archived(make: Callable[[str], ArchiveRecord]) -> Way:
    return lambda ways, secret: ways.archive(make(secret))


WAYS |= {f"archived {name}": _archived(make) for name, make in ARCHIVED.items()}
WAYS |= {  # without the secret it names no memory
    "archived relation": lambda w, s: w.archive(
        _memory(relates_to=(f"decisions:{s}:0",)), taken=False
    ),
    "archived successor": lambda w, s: w.archive(
        _memory(superseded_by=f"decisions:{s}:0"), taken=False
    ),
}
SECRETS = {name: token() for name in WAYS}


@pytest.fixture(scope="module")
def stored_bytes() -> Iterator[dict[str, bytes]]:
    """All bytes that a daemon keeps that was told every secret, by where they are."""
    with Home() as home:
        home.serve()
        folder = make_repository(home.work / "app").folder
        with connect(home) as client:
            ways = Ways(home, client, Web(home), folder)
            for name, way in WAYS.items():
                way(ways, SECRETS[name])
        home.stop()
        wait_until(lambda: not home.processes(), "the daemon is gone")
        yield dict(_bytes(home.data))


def _bytes(data: Path) -> Iterator[tuple[str, bytes]]:
    for path in data.rglob("*"):
        yield f"name of {path.name}", path.name.encode()
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(data)), path.read_bytes()
    for repository in data.rglob("*.git"):
        found = pygit2.Repository(str(repository))
        for each in found:
            yield f"{repository.name} {each}", found[each].read_raw()
    yield from _rows(open_left_store(data, unexpected))
    if (data / "local").exists():  # what a daemon on a server derives for its indexes
        yield from _rows(CommittedStore(RocksEngine(data / "local"), watch=unexpected))


def _rows(store: OrderedStore) -> Iterator[tuple[str, bytes]]:
    with closing(store):
        for family in families.ALL:
            for row in everything(store, family):
                yield f"{family} {row[0]!r}", b"\0".join(row)


def test_what_is_kept_is_searched(stored_bytes: dict[str, bytes]) -> None:
    assert any(CONTROL.encode() in data for data in stored_bytes.values())
    assert any(b"[REDACTED:github-token]" in data for data in stored_bytes.values())


@pytest.mark.parametrize("name", WAYS)
def test_no_secret_is_kept(stored_bytes: dict[str, bytes], name: str) -> None:
    body = SECRETS[name].removeprefix("ghp_")
    wanted = (body.encode(), body.lower().encode(), body[:16].encode())
    assert [at for at, data in stored_bytes.items() if any(each in data for each in wanted)] == []
