"""Properties of the key layout and the value layout."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_memory.features.log.adapters import event_codec
from agent_memory.features.log.model.events import (
    MAX_EVENT_ID_CHARS,
    MAX_SESSION_ID_CHARS,
    Event,
    EventRole,
    EventType,
)
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.store import codec, keys

printable = st.characters(
    exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"), include_characters=" "
)
letters = st.sampled_from(":%|3A25a0") | printable  # characters that break a wrong escape, often
event_ids = st.text(letters, min_size=1, max_size=MAX_EVENT_ID_CHARS).map(EventId)
session_ids = st.text(letters, min_size=1, max_size=MAX_SESSION_ID_CHARS).map(SessionId)
millis = (st.integers(0, MAX_MILLIS) | st.integers(0, 20)).map(Millis)
unicode_text = st.text()
events = st.builds(
    Event,
    event_id=event_ids,
    session_id=session_ids,
    at_ms=millis,
    type=st.sampled_from(EventType),
    role=st.sampled_from(EventRole),
    text=unicode_text,
    metadata=st.dictionaries(unicode_text, unicode_text, max_size=5),
)
AT = Position(at_ms=Millis(1), event_id=EventId("e"))


class TestKeys:
    @given(a=st.tuples(millis, event_ids), b=st.tuples(millis, event_ids))
    def test_event_keys_sort_by_time_then_id(
        self, a: tuple[Millis, EventId], b: tuple[Millis, EventId]
    ) -> None:
        by_value = (a[0], a[1].encode()) < (b[0], b[1].encode())
        assert (keys.event(*a) < keys.event(*b)) is by_value
        assert (keys.event(*a) == keys.event(*b)) is (a == b)

    @given(session=session_ids, a=st.tuples(millis, event_ids), b=st.tuples(millis, event_ids))
    def test_keys_of_a_session_sort_by_time_then_id(
        self, session: SessionId, a: tuple[Millis, EventId], b: tuple[Millis, EventId]
    ) -> None:
        by_value = (a[0], a[1].encode()) < (b[0], b[1].encode())
        assert (keys.session_event(session, *a) < keys.session_event(session, *b)) is by_value

    @given(at_ms=millis, event_id=event_ids)
    def test_an_event_key_tells_its_position(self, at_ms: Millis, event_id: EventId) -> None:
        at = Position(at_ms=at_ms, event_id=event_id)
        assert keys.parse_position(keys.event(at_ms, event_id)) == at

    @given(session=session_ids, at_ms=millis, event_id=event_ids)
    def test_a_session_key_tells_its_position(
        self, session: SessionId, at_ms: Millis, event_id: EventId
    ) -> None:
        at = Position(at_ms=at_ms, event_id=event_id)
        assert keys.parse_position(keys.session_event(session, at_ms, event_id)) == at

    @given(mine=session_ids, other=session_ids, at_ms=millis, event_id=event_ids)
    def test_a_session_holds_its_own_keys_and_no_others(
        self, mine: SessionId, other: SessionId, at_ms: Millis, event_id: EventId
    ) -> None:
        start, end = keys.session(mine), keys.end_of(keys.session(mine))
        assert start <= keys.session_event(mine, at_ms, event_id) < end
        assume(mine != other)
        assert not start <= keys.session_event(other, at_ms, event_id) < end

    @pytest.mark.parametrize("other", ["a:b", "a%3Ab", "a%253Ab", "a:", "a:0000000000001:x"])
    def test_lookalike_sessions_are_apart(self, other: str) -> None:
        prefix = keys.session(SessionId("a"))
        key = keys.session_event(SessionId(other), Millis(1), EventId("e"))
        assert not key.startswith(prefix)

    @given(a=millis, event_id=event_ids, b=millis)
    def test_a_millisecond_holds_its_own_keys_and_no_others(
        self, a: Millis, event_id: EventId, b: Millis
    ) -> None:
        prefix = keys.event_prefix(b)
        assert (prefix <= keys.event(a, event_id) < keys.end_of(prefix)) is (a == b)

    @given(a=event_ids, b=event_ids)
    def test_id_keys_differ_as_ids_do(self, a: EventId, b: EventId) -> None:
        assert (keys.event_id(a) == keys.event_id(b)) is (a == b)

    @given(key=st.binary(max_size=6), other=st.binary(max_size=6))
    def test_after_is_the_next_key(self, key: bytes, other: bytes) -> None:
        assert key < keys.after(key)
        assert (other > key) is (other >= keys.after(key))

    @given(
        prefix=st.binary(min_size=1, max_size=4).filter(lambda prefix: prefix[-1] < 0xFF),
        key=st.binary(max_size=6),
        suffix=st.binary(max_size=4),
    )
    def test_end_of_parts_keys_with_a_prefix_from_those_behind(
        self, prefix: bytes, key: bytes, suffix: bytes
    ) -> None:
        assert prefix <= prefix + suffix < keys.end_of(prefix)
        assert (prefix <= key < keys.end_of(prefix)) is key.startswith(prefix)


DECODERS: list[Callable[[bytes], object]] = [
    lambda value: event_codec.decode_event(AT, value),
    codec.decode_millis,
    codec.decode_key,
]
every_decoder = pytest.mark.parametrize("decode", DECODERS, ids=["event", "millis", "key"])


class TestCodec:
    @given(event=events)
    def test_an_event_comes_back_as_it_was(self, event: Event) -> None:
        at = Position(at_ms=event.at_ms, event_id=event.event_id)
        assert event_codec.decode_event(at, event_codec.encode_event(event)) == event

    @given(at_ms=millis)
    def test_a_time_comes_back_as_it_was(self, at_ms: Millis) -> None:
        assert codec.decode_millis(codec.encode_millis(at_ms)) == at_ms

    @given(key=st.binary())
    def test_a_key_comes_back_as_it_was(self, key: bytes) -> None:
        assert codec.decode_key(codec.encode_key(key)) == key

    @every_decoder
    @given(version=st.integers(0, 255).filter(lambda v: v != codec.VERSION), rest=st.binary())
    def test_another_schema_version_fails(
        self, decode: Callable[[bytes], object], version: int, rest: bytes
    ) -> None:
        with pytest.raises(StorageFailed, match="schema"):
            decode(bytes([version]) + rest)

    @every_decoder
    def test_an_empty_value_fails(self, decode: Callable[[bytes], object]) -> None:
        with pytest.raises(StorageFailed, match="schema"):
            decode(b"")

    @given(event=events, data=st.data())
    def test_a_truncated_event_fails(self, event: Event, data: st.DataObject) -> None:
        value = event_codec.encode_event(event)
        cut = data.draw(st.integers(0, len(value) - 1))
        with pytest.raises(StorageFailed):
            event_codec.decode_event(AT, value[:cut])

    @given(event=events, more=st.binary(min_size=1))
    def test_an_event_with_something_behind_it_fails(self, event: Event, more: bytes) -> None:
        with pytest.raises(StorageFailed):
            event_codec.decode_event(AT, event_codec.encode_event(event) + more)

    @given(event=events, data=st.data())
    def test_a_changed_byte_gives_a_valid_event_or_fails(
        self, event: Event, data: st.DataObject
    ) -> None:
        value = bytearray(event_codec.encode_event(event))
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
        assert valid_or_failed(bytes(value))

    @given(body=st.binary())
    def test_arbitrary_bytes_give_a_valid_event_or_fail(self, body: bytes) -> None:
        assert valid_or_failed(bytes([codec.VERSION]) + body)

    @given(
        fields=st.tuples(
            unicode_text,
            st.integers(-1, 9),
            st.integers(-1, 5),
            unicode_text,
            st.dictionaries(unicode_text, unicode_text, max_size=2),
        )
    )
    def test_a_record_that_is_no_valid_event_fails(
        self, fields: tuple[str, int, int, str, dict[str, str]]
    ) -> None:
        session, kind, role, _, _ = fields
        valid = session.isprintable() and session and kind in range(1, 9) and role in range(1, 5)
        assume(not valid)
        with pytest.raises(StorageFailed):
            event_codec.decode_event(AT, bytes([codec.VERSION]) + msgspec.msgpack.encode(fields))

    @given(at_ms=millis, size=st.integers(0, 12).filter(lambda size: size != 6))
    def test_a_time_of_another_size_fails(self, at_ms: Millis, size: int) -> None:
        head, body = codec.encode_millis(at_ms)[:1], codec.encode_millis(at_ms)[1:]
        with pytest.raises(StorageFailed):
            codec.decode_millis(head + (body * 2)[:size])


def valid_or_failed(value: bytes) -> bool:
    """Check that a damaged value is valid by chance or raises StorageFailed."""
    try:
        return isinstance(event_codec.decode_event(AT, value), Event)
    except StorageFailed:
        return True
