"""The archive: every field is documented, and every record reads as it was written."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.backups.interfaces import archive
from agent_memory.features.backups.services.archiving import MemoryRecord
from agent_memory.features.checkpoints.archive_records import WriteRecord
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointKey,
    GraphCheckpoint,
    PendingWrite,
)
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId

PAGE = Path(__file__).parents[3] / "docs/reference/archive.md"


def fields(name: str, kind: type[Any]) -> set[str]:
    own = {each.name for each in dataclasses.fields(kind)}
    if kind is Event:
        return own - {"at_ms", "type"} | {"timestamp_ms", "event_type"}
    if kind is MemoryRecord:
        return {each.name for each in dataclasses.fields(Memory)} | {"use"}
    if kind is WriteRecord:
        own = {each.name for each in dataclasses.fields(PendingWrite)}
    if kind in (WriteRecord, GraphCheckpoint):
        return own - {"place", "type"} | {*CheckpointKey._fields, "serialized_as"}
    if name == "run":
        return own - {each.name for each in dataclasses.fields(Session)}
    return own


@pytest.mark.parametrize(("name", "kind"), archive.TYPES.items())
def test_every_field_is_documented_and_no_other(name: str, kind: type[Any]) -> None:
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(f"`{name}`:")]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == fields(name, kind)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, st.sampled_from(EventType), st.sampled_from(EventRole), TEXTS, st.binary())
def test_events_and_bytes_read_as_they_were_written(
    text: str, kind: EventType, role: EventRole, value: str, data: bytes
) -> None:
    event = Event(
        event_id=EventId("e"),
        session_id=SessionId("s"),
        at_ms=Millis(5),
        type=kind,
        role=role,
        text=text,
        metadata={"k": value},
    )
    write = WriteRecord(
        place=CheckpointKey("t", "", "c"),  # type: ignore[arg-type]
        write=PendingWrite(task_id="t", index=-1, channel="c", type="x", value=data),
    )
    lines = [archive.header("1", Millis(1)), archive.line(event), archive.line(write)]
    assert all(line.splitlines() == [line[:-1]] for line in lines)
    read = list(archive.read(line.encode() for line in lines))
    assert read == [("line 2", event), ("line 3", write)]


def test_lines_keep_their_numbers_after_empty_ones() -> None:
    head = archive.header("1", Millis(1)).encode()
    read = list(archive.read([head, b"\n", b"\n" * 40, b"{}\n", b" \n\n", b"[]"]))
    assert [place for place, _ in read] == ["line 43", "line 46"]


def test_what_cannot_be_read_is_given_up() -> None:
    lines = archive.read([archive.header("1", Millis(1)).encode(), *[b"x\n"] * 20_000])
    with pytest.raises(InvalidInput, match="10,000 lines up to line 10001"):
        list(lines)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"format": "other"}',
        json.dumps({"format": archive.FORMAT, "format_version": 2}).encode(),
    ],
)
def test_what_is_no_archive_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInput):
        list(archive.read([line]))
