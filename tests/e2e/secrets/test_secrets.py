"""Secrets on their way into the store: redacted or refused, told of, and in no file."""

import random
import string
from pathlib import Path

import grpc
import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.daemon_process import Daemon
from tests.memory_client import END_OF_TIME, Client

_letters = random.Random(7)  # made here, so that no scanner trips over this file


def generate(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_letters.choices(alphabet, k=length))


TOKEN = "ghp_" + generate(36)
PASSWORD = generate(20)
KEY = "\n".join(
    (
        f"-----BEGIN {'RSA'} PRIVATE KEY-----",
        *(generate(64) for _ in range(12)),
        f"-----END {'RSA'} PRIVATE KEY-----",
    )
)


def event(name: str, text: str, **metadata: str) -> pb.Event:
    return pb.Event(
        event_id=name,
        session_id="s",
        timestamp_ms=1_772_000_000_000,
        event_type=pb.EVENT_TYPE_USER_MESSAGE,
        role=pb.EVENT_ROLE_USER,
        text=text,
        metadata=metadata,
    )


def texts(client: Client) -> dict[str, str]:
    return {each.event_id: each.text for each in client.get_events(0, END_OF_TIME).events}


def files_with(folder: Path, secret: str) -> list[str]:
    wanted = secret.encode()
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and wanted in path.read_bytes()
    ]


def test_a_token_is_redacted_before_it_is_stored_indexed_or_logged(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.client() as client:
            said = event("a", f"use {TOKEN} for the deploy", password=PASSWORD, project="lantern")
            client.ingest(said)
            (stored,) = client.get_events(0, END_OF_TIME).events
        daemon.stop()
        assert stored.text.startswith("use [REDACTED:")
        assert stored.text.endswith("] for the deploy")
        assert stored.metadata["project"] == "lantern"
        assert stored.metadata["password"].startswith("[REDACTED:")
        assert files_with(tmp_path, TOKEN) == []
        assert files_with(tmp_path, PASSWORD) == []
        assert '"secrets.found"' in daemon.log()


def test_a_private_key_is_refused_and_its_neighbours_are_stored(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        with daemon.client() as client:
            with pytest.raises(grpc.RpcError) as refused:
                client.ingest(event("alone", KEY))
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            before, blocked, after = client.ingest_all(
                [event("before", "hello"), event("key", f"here:\n{KEY}"), event("after", "bye")]
            )
            assert (before.created, after.created) == (True, True)
            assert "private-key" in blocked.error
            assert texts(client) == {"after": "bye", "before": "hello"}
        daemon.stop()
        assert files_with(tmp_path, KEY.splitlines()[3]) == []


def test_a_long_text_is_cleaned_too(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.client() as client:
        client.ingest(event("long", "word " * 100_000 + TOKEN))
        (outcome,) = client.ingest_all([event("bulk", "word " * 100_000 + TOKEN)])
        assert outcome.created
        assert all("[REDACTED:" in text[-60:] for text in texts(client).values())


@pytest.mark.parametrize(
    ("mode", "saved"), [("warn", True), ("off", True), ("redact", False), ("block", None)]
)
def test_what_the_setting_says_is_done(tmp_path: Path, mode: str, saved: bool | None) -> None:
    folder = tmp_path / ".config/agent-memory"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[security]\nsecrets = "{mode}"\n')
    with Daemon(tmp_path) as daemon, daemon.client() as client:
        if saved is None:
            with pytest.raises(grpc.RpcError, match="FAILED_PRECONDITION"):
                client.ingest(event("a", f"token {TOKEN}"))
            assert texts(client) == {}
        else:
            client.ingest(event("a", f"token {TOKEN}"))
            assert (TOKEN in texts(client)["a"]) is saved


def test_what_is_allowed_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".config/agent-memory"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[security]\nallow = ["{TOKEN}"]\n')
    with Daemon(tmp_path) as daemon, daemon.client() as client:
        client.ingest(event("a", f"token {TOKEN}"))
        assert texts(client) == {"a": f"token {TOKEN}"}
