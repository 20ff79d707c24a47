"""Events and their ids."""

import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.client import Event, EventRole, EventType
from agent_memory.client.ids import new_ulid, ulid
from agent_memory.client.values import millis, moment

EVENT = Event(
    session_id="session-001",
    timestamp=1_738_281_600_123,
    event_type=EventType.USER_MESSAGE,
    role=EventRole.USER,
    text="What is Rust?",
    metadata={"a": "b"},
)


def test_milliseconds_and_a_datetime_are_the_same_moment() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    at = datetime(2025, 1, 31, 5, 30, 0, 123_999, zone)

    same = replace(EVENT, timestamp=at)

    assert same == EVENT
    assert same.timestamp == datetime(2025, 1, 31, 0, 0, 0, 123_000, UTC)
    assert same.timestamp.tzinfo is UTC
    assert same.timestamp_ms == 1_738_281_600_123


@given(st.integers(0, 9_999_999_999_999))
def test_no_millisecond_is_lost(at_ms: int) -> None:
    assert millis(moment(at_ms)) == at_ms
    assert moment(moment(at_ms)) == moment(at_ms)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_datetime_loses_less_than_a_millisecond(at: datetime) -> None:
    assert timedelta(0) <= at - moment(at) < timedelta(milliseconds=1)


def test_a_datetime_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        replace(EVENT, timestamp=datetime(2025, 1, 31))


@pytest.mark.parametrize("at_ms", [1 << 62, -(1 << 62), 1 << 80])
def test_a_number_that_is_no_time_is_refused(at_ms: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        Event(
            session_id="s",
            timestamp=at_ms,
            event_type=EventType.USER_MESSAGE,
            role=EventRole.USER,
        )


def test_an_event_does_not_change() -> None:
    given_metadata = {"a": "b"}
    event = replace(EVENT, metadata=given_metadata)
    given_metadata["a"] = "c"

    assert event.metadata == {"a": "b"}
    with pytest.raises(FrozenInstanceError):
        event.text = "other"  # type: ignore[misc]


def test_an_event_can_be_a_key_and_go_to_another_process() -> None:
    assert {EVENT: 1}[replace(EVENT)] == 1
    assert pickle.loads(pickle.dumps(EVENT)) == EVENT  # noqa: S301 - our own bytes


def test_an_id_is_kept_as_given_even_if_it_is_bad() -> None:
    assert replace(EVENT, event_id="mine").event_id == "mine"
    assert replace(EVENT, event_id="").event_id == ""


@pytest.mark.parametrize("field", ["event_type", "role"])
def test_an_unknown_type_or_role_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="0 is not a valid"):
        replace(EVENT, **{field: 0})  # type: ignore[arg-type]


def test_a_ulid_is_time_and_chance() -> None:
    # The example of the specification, and the largest that there is.
    assert ulid(1_469_918_176_385, bytes(10))[:10] == "01ARYZ6S41"
    assert ulid((1 << 48) - 1, b"\xff" * 10) == "7" + "Z" * 25
    assert ulid(0, bytes(9) + b"\x21") == "0" * 24 + "11"


@given(st.integers(0, (1 << 48) - 1), st.binary(min_size=10, max_size=10))
def test_ulids_sort_as_their_parts(at_ms: int, chance: bytes) -> None:
    created = ulid(at_ms, chance)

    assert len(created) == 26
    assert (created < ulid(1 << 40, bytes(10))) == ((at_ms, chance) < (1 << 40, bytes(10)))


def test_a_new_ulid_is_of_now() -> None:
    before = ulid(millis(datetime.now(UTC)), bytes(10))
    created = new_ulid()
    after = ulid(millis(datetime.now(UTC)), b"\xff" * 10)

    assert before <= created <= after
