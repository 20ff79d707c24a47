"""Cutting the body of a call into messages."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.interfaces.grpc.messages import (
    MAX_MESSAGE_BYTES,
    MessageReader,
    RawMessage,
    add_prefix,
)
from agent_memory.interfaces.grpc.statuses import Status, StatusError


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_messages_are_found_wherever_the_body_is_cut(
    messages: list[bytes], data: st.DataObject
) -> None:
    body = b"".join(map(add_prefix, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    reader, read = MessageReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        read += [reader.decode(message) for message in reader.feed(body[start:end])]
    assert read == messages
    assert not reader.is_inside_message


def test_a_message_that_has_begun_is_noticed() -> None:
    reader = MessageReader()
    assert reader.feed(add_prefix(b"whole") + add_prefix(b"cut")[:-1]) == [
        RawMessage(False, b"whole")
    ]
    assert reader.is_inside_message


@pytest.mark.parametrize("split", [4, 5, 6])
def test_a_length_over_the_limit_is_refused_before_the_message_is_there(split: int) -> None:
    body = b"\0" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big") + b"x"
    reader = MessageReader()
    with pytest.raises(StatusError) as refused:
        assert reader.feed(body[:split]) + reader.feed(body[split:]) == []
    assert refused.value.status is Status.RESOURCE_EXHAUSTED


def test_what_unpacks_to_more_than_the_limit_is_never_unpacked_whole() -> None:
    bomb = zlib.compress(bytes(64 << 20))
    reader = MessageReader(b"deflate")
    (message,) = reader.feed(b"\1" + add_prefix(bomb)[1:])
    with pytest.raises(StatusError, match="after decompression") as refused:
        reader.decode(message)
    assert refused.value.status is Status.RESOURCE_EXHAUSTED


def test_a_message_that_is_not_compressed_is_read_as_it_is() -> None:
    reader = MessageReader(b"gzip")
    assert [reader.decode(each) for each in reader.feed(add_prefix(b"plain"))] == [b"plain"]
