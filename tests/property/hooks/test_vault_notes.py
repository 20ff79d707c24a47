"""Properties of notes: what is written is read again, and every name is valid."""

from hypothesis import example, given
from hypothesis import strategies as st

from agent_memory.features.hooks.model import vault_notes
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.kernel.ids import EventId, Millis, SessionId

_characters = st.characters(codec="utf-8")
_wicked = st.sampled_from(["%%", '%% {"length": 3} %%\n', "\n", "\r\n", "---\n", "# ", "]]", "|"])
_texts = st.lists(_wicked | st.text(_characters, max_size=5), max_size=8).map("".join)
_names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20
)


@st.composite
def _events(draw: st.DrawFn) -> Event:
    return Event(
        event_id=EventId(draw(_names)),
        session_id=SessionId(draw(_names)),
        at_ms=Millis(draw(st.integers(0, 9_999_999_999_999))),
        type=draw(st.sampled_from(EventType)),
        role=draw(st.sampled_from(EventRole)),
        text=draw(_texts),
        metadata=draw(st.dictionaries(_names, _texts, max_size=3)),
    )


@given(st.lists(st.tuples(_events(), st.booleans()), max_size=4))
def test_events_are_read_as_they_were(events: list[tuple[Event, bool]]) -> None:
    pieces = [vault_notes.format_front(vault_notes.SESSION, {"session": "%%"}), "# Title\n\n"]
    for event, is_shown in events:
        pieces += ["## 10:00 User\n\n", *vault_notes.format_event(event, is_shown=is_shown)]
    found = list(vault_notes.parse_events("".join(pieces)))
    assert found == [
        {
            "event_id": event.event_id,
            "session_id": event.session_id,
            "timestamp_ms": event.at_ms,
            "event_type": event.type.name.lower(),
            "role": event.role.name.lower(),
            "metadata": dict(event.metadata),
            "text": event.text,
        }
        for event, _ in events
    ]


@given(_texts)
@example("com1.txt")
@example("." * 300)
def test_names_and_links_are_valid(text: str) -> None:
    name = vault_notes.to_file_name(text)
    assert len(name.encode()) <= 204
    assert not set(name) & set('"*/\\<>:|?#^[]%\n')
    assert name.strip(". ") == name
    link = vault_notes.format_link("Days/x", text)
    assert link.count("[[") == link.count("]]") == 1
    assert "\n" not in link
