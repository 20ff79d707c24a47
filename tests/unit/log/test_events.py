"""The limits of an event, each from both sides, with messages that say what to change."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError

import pytest

from agent_memory.features.log.model.events import (
    MAX_EVENT_ID_CHARS,
    MAX_METADATA_BYTES,
    MAX_METADATA_ENTRIES,
    MAX_SESSION_ID_CHARS,
    MAX_TEXT_BYTES,
    Event,
    EventRole,
    EventType,
)
from agent_memory.features.log.services.ingest import count_scanned
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, SessionId

SURROGATE = "\ud800"
UNPRINTABLE = ["\n", "a\0", "tab\t", "\u200b", "\u2028", "\x7f", SURROGATE]


def event(
    *,
    event_id: str = "e",
    session_id: str = "s",
    at_ms: int = 1,
    text: str = "",
    metadata: Mapping[str, str] | None = None,
) -> Event:
    return Event(
        event_id=EventId(event_id),
        session_id=SessionId(session_id),
        at_ms=Millis(at_ms),
        type=EventType.USER_MESSAGE,
        role=EventRole.USER,
        text=text,
        metadata=metadata or {},
    )


def test_the_limits_are_those_that_the_documents_promise() -> None:
    assert (MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS) == (128, 256)
    assert (MAX_TEXT_BYTES, MAX_MILLIS) == (1024 * 1024, 9_999_999_999_999)
    assert (MAX_METADATA_ENTRIES, MAX_METADATA_BYTES) == (256, 64 * 1024)


def test_an_event_cannot_be_changed() -> None:
    built = event()
    with pytest.raises(FrozenInstanceError):
        built.text = "other"  # type: ignore[misc]


class TestIds:
    @pytest.mark.parametrize("letter", ["a", "é", "😀"])
    def test_ids_may_have_as_many_characters_as_the_limit(self, letter: str) -> None:
        built = event(event_id=letter * 128, session_id=letter * 256)
        assert (len(built.event_id), len(built.session_id)) == (128, 256)

    def test_a_longer_event_id_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^event_id has 129 .* limit is 128"):
            event(event_id="a" * 129)

    def test_a_longer_session_id_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^session_id has 257 .* limit is 256"):
            event(session_id="a" * 257)

    def test_an_empty_event_id_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^event_id is required"):
            event(event_id="")

    def test_an_empty_session_id_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^session_id is required"):
            event(session_id="")

    @pytest.mark.parametrize("name", UNPRINTABLE, ids=ascii)
    def test_an_unprintable_event_id_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"^event_id must contain only printable"):
            event(event_id=name)

    @pytest.mark.parametrize("name", UNPRINTABLE, ids=ascii)
    def test_an_unprintable_session_id_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"^session_id must contain only printable"):
            event(session_id=name)

    @pytest.mark.parametrize("name", [":", "%", "a b", "/", "日本"])
    def test_any_printable_character_is_accepted(self, name: str) -> None:
        assert event(event_id=name, session_id=name).session_id == name


class TestTimes:
    @pytest.mark.parametrize("at_ms", [0, MAX_MILLIS])
    def test_both_ends_are_accepted(self, at_ms: int) -> None:
        assert event(at_ms=at_ms).at_ms == at_ms

    @pytest.mark.parametrize("at_ms", [-1, MAX_MILLIS + 1])
    def test_times_beyond_the_limit_are_refused(self, at_ms: int) -> None:
        with pytest.raises(InvalidInput, match=rf"^timestamp_ms is {at_ms}; .* {MAX_MILLIS} "):
            event(at_ms=at_ms)


class TestText:
    @pytest.mark.parametrize("letter", ["a", "é", "😀"])
    def test_text_may_have_as_many_bytes_as_the_limit(self, letter: str) -> None:
        text = letter * (MAX_TEXT_BYTES // len(letter.encode()))
        assert event(text=text).text == text

    @pytest.mark.parametrize("letter", ["a", "é", "😀"])
    def test_one_byte_more_is_refused(self, letter: str) -> None:
        text = letter * (MAX_TEXT_BYTES // len(letter.encode())) + "a"
        with pytest.raises(InvalidInput, match=r"^text is 1,048,577 bytes; .* 1,048,576 "):
            event(text=text)

    def test_text_may_be_empty_and_hold_control_characters(self) -> None:
        assert event(text="").text == ""
        assert event(text="\0\n\u2028").text == "\0\n\u2028"

    def test_a_lone_surrogate_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^text must be valid Unicode"):
            event(text=SURROGATE)


class TestMetadata:
    def test_as_many_entries_as_the_limit_are_accepted(self) -> None:
        assert len(event(metadata={str(n): "" for n in range(256)}).metadata) == 256

    def test_one_entry_more_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"^metadata has 257 entries; .* 256"):
            event(metadata={str(n): "" for n in range(257)})

    def test_keys_and_values_may_have_as_many_bytes_together_as_the_limit(self) -> None:
        metadata = {"é" * 8: "a" * (MAX_METADATA_BYTES - 16)}
        assert event(metadata=metadata).metadata == metadata

    @pytest.mark.parametrize("key", ["é" * 8 + "k", "é" * 9])
    def test_more_bytes_are_refused(self, key: str) -> None:
        size = MAX_METADATA_BYTES - 16 + len(key.encode())
        with pytest.raises(InvalidInput, match=rf"^metadata has {size:,} bytes; .* 65,536 "):
            event(metadata={key: "a" * (MAX_METADATA_BYTES - 16)})

    @pytest.mark.parametrize("metadata", [{SURROGATE: "v"}, {"k": SURROGATE}], ids=["key", "value"])
    def test_a_lone_surrogate_is_refused(self, metadata: Mapping[str, str]) -> None:
        with pytest.raises(InvalidInput, match=r"^metadata must be valid Unicode"):
            event(metadata=metadata)


def test_metadata_counts_as_scanned() -> None:
    assert count_scanned("said", {"key": "value", "k": ""}) == 4 + 3 + 5 + 1
