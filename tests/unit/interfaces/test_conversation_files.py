"""Files of conversations: how they are told from files of memories, and how they read."""

import json
from datetime import UTC

import pytest

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import TITLES
from agent_memory.features.log.model.outlines import SessionOutline
from agent_memory.interfaces import conversation_files
from agent_memory.kernel.ids import EventId, Millis, SessionId
from tests.past_conversations import build_chatgpt
from tests.transcript_files import START_MS


def build_event(text: str, role: EventRole = EventRole.USER, **metadata: str) -> Event:
    kind = EventType.TOOL_RESULT if role is EventRole.TOOL else EventType.USER_MESSAGE
    return Event(
        event_id=EventId("e"),
        session_id=SessionId("s"),
        at_ms=Millis(START_MS),
        type=kind,
        role=role,
        text=text,
        metadata=metadata,
    )


class TestGuesses:
    @pytest.mark.parametrize(
        ("record", "expected"),
        [
            ({"session_id": "s", "role": "user", "text": '"summary": 1'}, True),
            ([{"event_id": "e", "session_id": "s"}], True),
            ({"summary": "a", "namespace": "x", "content": '"session_id": "s"'}, False),
            ({"memories": [{"id": "x", "session_id": "s"}]}, False),
            ([], False),
        ],
    )
    def test_the_first_record_decides(self, record: object, expected: bool) -> None:
        data = json.dumps(record).encode()
        assert conversation_files.is_conversation("a.json", data) is expected

    def test_other_formats_are_memories(self) -> None:
        assert not conversation_files.is_conversation("a.yaml", b'{"session_id": "s"}')
        assert not conversation_files.is_conversation("a.md", b"# Title")

    def test_exports_are_recognized(self) -> None:
        talk = json.dumps([build_chatgpt()]).encode()
        assert conversation_files.guess_source(talk) == "chatgpt"
        memory = json.dumps({"summary": "a", "x": build_chatgpt()}).encode()
        assert conversation_files.guess_source(memory) == ""
        assert conversation_files.guess_source(b'[{"uuid": 1, "chat_messages": [') == "claude-ai"


class TestMarkdown:
    def test_the_output_of_a_tool_is_code_whatever_it_holds(self) -> None:
        events = [
            build_event("Show it"),
            build_event("cat: a.md\n````\nx\n````", EventRole.TOOL),
            build_event("Lamp", EventRole.SYSTEM, **{TITLES: "agent"}),
        ]
        outline = SessionOutline(SessionId("s"), Millis(START_MS))
        for event in events:
            outline.add(event)
        text = "".join(conversation_files.dump_markdown(outline, events, UTC))
        assert text == (
            "# 2026-01-01 10:00 Lamp\n\nsession s\n\n## 10:00 User\n\nShow it\n\n"
            "## 10:00 Tool\n\n`````text\ncat: a.md\n````\nx\n````\n`````\n\n"
        )

    def test_titles_of_the_user_come_first(self) -> None:
        outline = SessionOutline(SessionId("s"), Millis(START_MS))
        assert outline.title == "s"
        for event in (
            build_event("word " * 50),
            build_event("Given", EventRole.SYSTEM, **{TITLES: "user"}),
            build_event("Made", EventRole.SYSTEM, **{TITLES: "agent"}),
        ):
            outline.add(event)
        assert outline.title == "Given"
        assert outline.first_words == ("word " * 20).strip()
