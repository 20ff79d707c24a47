"""Every way into the store, with a secret in every field: none is in any byte that is kept.

The secrets are made here, one for each field, so that a leak names its way in.
"""

import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
import pytest

from agent_memory.adapters.storage import families
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.rocks import RocksEngine
from agent_memory.proto import checkpoints_pb2, memory_pb2
from tests.contract.stores import everything, unexpected
from tests.git_repositories import made
from tests.hook_inputs import claude
from tests.launching import Home, until
from tests.memory_client import Client
from tests.memory_commands import INVALID, OK, Memory
from tests.searching import connected
from tests.web import Web

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
        answer = self.home.run("memory", "hook", "auto", given=claude(event, **given), cwd=here)
        assert (answer.code, answer.errors) == (OK, ""), answer

    def post(self, path: str, body: dict[str, Any]) -> None:
        answer = self.web.ask("POST", f"/api/v1/memories/{path}/", json=body)
        assert answer.status_code == 201, answer.text

    def memory(self, *words: str, given: bytes = b"", code: int = OK) -> None:
        answer = Memory(self.home, self.folder)(*words, given=given)
        assert answer.code == code, answer

    def transcript(self, name: str, **fields: Any) -> None:
        path = self.home.work / f"{name}.jsonl"
        line = {"session_id": "t", "timestamp_ms": AT, "role": "user", "text": name, **fields}
        path.write_text(json.dumps(line) + "\n")
        self.memory("import", "--from", "jsonl", str(path))

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
    answer = Memory(ways.home, folder)("capture", "decisions", "One that is refused")
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
SECRETS = {name: token() for name in WAYS}


@pytest.fixture(scope="module")
def kept() -> Iterator[dict[str, bytes]]:
    """All bytes that a daemon keeps that was told every secret, by where they are."""
    with Home() as home:
        home.serve()
        folder = made(home.work / "app").folder
        with connected(home) as client:
            ways = Ways(home, client, Web(home), folder)
            for name, way in WAYS.items():
                way(ways, SECRETS[name])
        home.stop()
        until(lambda: not home.processes(), "the daemon is gone")
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
    store = CommittedStore(RocksEngine(data / "db"), watch=unexpected)
    try:
        for family in families.ALL:
            for row in everything(store, family):
                yield f"{family} {row[0]!r}", b"\0".join(row)
    finally:
        store.close()


def test_what_is_kept_is_searched(kept: dict[str, bytes]) -> None:
    assert any(CONTROL.encode() in data for data in kept.values())
    assert any(b"[REDACTED:github-token]" in data for data in kept.values())


@pytest.mark.parametrize("name", WAYS)
def test_no_secret_is_kept(kept: dict[str, bytes], name: str) -> None:
    body = SECRETS[name].removeprefix("ghp_")
    wanted = (body.encode(), body.lower().encode(), body[:16].encode())
    assert [at for at, data in kept.items() if any(each in data for each in wanted)] == []
