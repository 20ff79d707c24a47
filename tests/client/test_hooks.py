"""The events that hook calls are recorded as."""

from datetime import UTC, datetime

import pytest

from agent_memory.client import (
    Event,
    EventRole,
    EventType,
    HookEvent,
    HookEventType,
    MemoryClient,
    map_hook_event,
)

TABLE = {
    HookEventType.SESSION_START: (EventType.SESSION_START, EventRole.SYSTEM),
    HookEventType.USER_PROMPT_SUBMIT: (EventType.USER_MESSAGE, EventRole.USER),
    HookEventType.ASSISTANT_RESPONSE: (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
    HookEventType.TOOL_USE: (EventType.TOOL_RESULT, EventRole.TOOL),
    HookEventType.TOOL_RESULT: (EventType.TOOL_RESULT, EventRole.TOOL),
    HookEventType.STOP: (EventType.SESSION_END, EventRole.SYSTEM),
    HookEventType.SUBAGENT_START: (EventType.SUBAGENT_START, EventRole.SYSTEM),
    HookEventType.SUBAGENT_STOP: (EventType.SUBAGENT_STOP, EventRole.SYSTEM),
}
AT = datetime(2026, 1, 30, 12, 0, 0, 5_000, UTC)


@pytest.mark.parametrize("kind", HookEventType)
def test_every_hook_has_its_type_and_role(kind: HookEventType) -> None:
    event = map_hook_event(HookEvent("session-1", kind, "Hello!"))

    assert (event.event_type, event.role) == TABLE[kind]
    assert (event.session_id, event.text, event.metadata) == ("session-1", "Hello!", {})


def test_a_hook_says_when_with_what_tool_and_what_more() -> None:
    hook = (
        HookEvent("session-1", HookEventType.TOOL_RESULT, "File contents")
        .with_timestamp(AT)
        .with_tool_name("Read")
        .with_metadata({"file_path": "/src/main.rs"})
    )

    event = map_hook_event(hook)

    assert event == Event(
        event_id=event.event_id,
        session_id="session-1",
        timestamp=AT,
        event_type=EventType.TOOL_RESULT,
        role=EventRole.TOOL,
        text="File contents",
        metadata={"file_path": "/src/main.rs", "tool_name": "Read"},
    )


def test_builders_leave_the_hook_as_it_was() -> None:
    plain = HookEvent("session-1", HookEventType.STOP, "")

    assert plain.with_timestamp(AT) != plain
    assert plain.with_tool_name("Read") != plain
    assert plain.with_metadata({"a": "b"}) != plain
    assert plain == HookEvent("session-1", HookEventType.STOP, "")


def test_metadata_adds_up_and_does_not_follow_its_source() -> None:
    source = {"a": "1", "tool_name": "Write"}
    hook = HookEvent("s", HookEventType.TOOL_USE).with_metadata(source).with_metadata({"b": "2"})
    source["a"] = "3"

    assert map_hook_event(hook).metadata == {"a": "1", "b": "2", "tool_name": "Write"}
    assert map_hook_event(hook.with_tool_name("Read")).metadata["tool_name"] == "Read"


def test_without_a_timestamp_it_is_now() -> None:
    before = datetime.now(UTC).timestamp() * 1000 - 1
    event = map_hook_event(HookEvent("s", HookEventType.SESSION_START))

    assert before <= event.timestamp_ms <= datetime.now(UTC).timestamp() * 1000


def test_each_mapping_is_an_event_of_its_own() -> None:
    hook = HookEvent("s", HookEventType.STOP)

    assert map_hook_event(hook).event_id != map_hook_event(hook).event_id


def test_a_mapped_hook_is_accepted_by_the_daemon(client: MemoryClient, hour: int) -> None:
    events = [map_hook_event(HookEvent("s", kind).with_timestamp(hour)) for kind in HookEventType]

    assert client.ingest_batch(events) == len(HookEventType)
    assert set(client.iter_events(hour, hour)) == set(events)
