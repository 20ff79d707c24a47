"""`make demo`: a real daemon on a data folder of its own, a conversation in, memory back out."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc

from agent_memory.proto import memory_pb2 as pb

CONVERSATION = Path(__file__).with_name("conversation.jsonl")
START_SECONDS = 20


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="agent-memory-demo-"))
    try:
        with daemon(folder) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            play(channel)
    finally:
        shutil.rmtree(folder)


def play(channel: grpc.Channel) -> None:
    say("A coding agent's conversations over one week go in, while the daemon keeps them on disk.")
    events = list(conversation())
    outcomes = ingest(channel, events)
    created = sum(outcome.created for outcome in outcomes)
    sessions = len({event.session_id for event in events})
    show(f"{created} events of {sessions} sessions recorded, each on disk before it was answered")

    say("The same conversation once more: nothing is stored twice.")
    again = sum(outcome.created for outcome in ingest(channel, events))
    show(f"{again} new events")

    say("What was said on 4 March 2026, between 13:40 and 13:50?")
    for event in between(channel, "2026-03-04T13:40:00Z", "2026-03-04T13:50:00Z"):
        at = datetime.fromtimestamp(event.timestamp_ms / 1000, UTC)
        role = pb.EventRole.Name(event.role).removeprefix("EVENT_ROLE_").lower()
        show(f"{at:%H:%M} {role:>9}  {event.text or '(' + event.session_id + ')'}")


@contextmanager
def daemon(folder: Path) -> Iterator[int]:
    """A daemon that keeps to `folder`; gives its port."""
    environ = os.environ | {
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "MEMORY_GRPC__PORT": "0",
    }
    errors = folder / "log"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "agent_memory.daemon"], env=environ, stderr=log
        )
    try:
        record = folder / "data/agent-memory/daemon.json"
        deadline = time.monotonic() + START_SECONDS
        while not record.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the daemon did not start:\n{errors.read_text()}")
            time.sleep(0.05)
        yield json.loads(record.read_text())["grpc_port"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def conversation() -> Iterator[pb.Event]:
    for number, line in enumerate(CONVERSATION.read_text().splitlines(), 1):
        record = json.loads(line)
        yield pb.Event(
            event_id=f"demo-{number:03}",
            session_id=record["session_id"],
            timestamp_ms=millis(record["at"]),
            event_type="EVENT_TYPE_" + record["type"].upper(),
            role="EVENT_ROLE_" + record["role"].upper(),
            text=record["text"],
            metadata=record.get("metadata", {}),
        )


def ingest(channel: grpc.Channel, events: list[pb.Event]) -> list[pb.IngestOutcome]:
    call = channel.stream_stream(
        "/memory.MemoryService/IngestEvents",
        request_serializer=pb.IngestEventsRequest.SerializeToString,
        response_deserializer=pb.IngestEventsResponse.FromString,
    )
    answers = call(iter([pb.IngestEventsRequest(events=events)]))
    return [outcome for answer in answers for outcome in answer.outcomes]


def between(channel: grpc.Channel, start: str, end: str) -> list[pb.Event]:
    call = channel.unary_unary(
        "/memory.MemoryService/GetEvents",
        request_serializer=pb.GetEventsRequest.SerializeToString,
        response_deserializer=pb.GetEventsResponse.FromString,
    )
    request = pb.GetEventsRequest(from_timestamp_ms=millis(start), to_timestamp_ms=millis(end))
    return list(call(request).events)


def millis(iso: str) -> int:
    return int(datetime.fromisoformat(iso).timestamp() * 1000)


def say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")


def show(text: str) -> None:
    sys.stdout.write(f"    {text}\n")


if __name__ == "__main__":
    main()
