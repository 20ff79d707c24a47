"""Properties of what a model's server streams: however it is cut into pieces, it says the same."""

import json
from collections.abc import Iterable, Sequence
from itertools import count, pairwise, repeat
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_memory.features.runs.adapters import event_stream
from agent_memory.features.runs.adapters.event_stream import EventTooLong, events
from agent_memory.features.runs.adapters.tool_calls import (
    MAX_CALLS,
    CallAssembler,
    CallDelta,
    TooManyCalls,
)
from agent_memory.features.runs.model.chats import CallId, ToolCall

ENDS = (b"\n", b"\r\n", b"\r")
# Of an event: its line's and that of the empty one. A CR and an LF would be one.
BREAKS = [first + second for first in ENDS for second in ENDS if (first, second) != (b"\r", b"\n")]
LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))
ODD = st.lists(
    st.sampled_from(
        [
            b"data: a",
            b"data:b",
            b"data",
            b":",
            b": c",
            b"event: d",
            b"\r",
            b"\n",
            b"\r\n",
            b"e",
            b" ",
        ]
    ),
    max_size=20,
).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=12) | st.just(list(range(400)))


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """In pieces, some of them perhaps empty."""
    inside = sorted(place for place in places if place <= len(data))
    return [data[start:end] for start, end in pairwise([0, *inside, len(data)])]


@given(ODD, CUTS)
@example(b"data: a\r\ndata: b\r\n\r\n", [8, 8, 9, 16])
def test_any_cutting_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    assert list(events(cut(stream, cuts))) == list(events([stream]))


@given(
    st.lists(st.lists(LINE, min_size=1, max_size=3), max_size=5),
    st.sampled_from(ENDS),
    st.sampled_from([b"data: ", b": ping\nid: 7\ndata: "]),
    CUTS,
)
def test_what_was_written_is_read(
    written: list[list[bytes]], end: bytes, prefix: bytes, cuts: list[int]
) -> None:
    stream = b"".join(
        b"".join(prefix.replace(b"\n", end) + line + end for line in lines) + end
        for lines in written
    )
    assert list(events(cut(stream, cuts))) == [b"\n".join(lines) for lines in written]


@given(st.lists(st.tuples(LINE, st.sampled_from(BREAKS)), max_size=6))
def test_each_line_may_end_as_it_likes(written: list[tuple[bytes, bytes]]) -> None:
    stream = b"".join(b"data: " + line + end for line, end in written)
    assert list(events([stream])) == [line for line, _ in written]


@pytest.mark.parametrize("end", ENDS)
def test_an_event_is_there_with_its_last_byte(end: bytes) -> None:
    """Nobody waits for a next piece, which may be long in coming."""

    def pieces() -> Iterable[bytes]:
        yield b"data: first" + end + end
        raise AssertionError("it should have been told before")

    assert next(iter(events(pieces()))) == b"first"


@given(st.lists(LINE.filter(bool), min_size=1, max_size=4), st.data())
def test_of_a_stream_cut_short_all_is_told_that_came(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(b"data: " + line + b"\n\n" for line in lines)
    end = data.draw(st.integers(0, len(stream)))
    told = [each.removesuffix(b"\n") for each in stream[:end].split(b"\n\n")]
    expected = [each[5:].removeprefix(b" ") for each in told if each.startswith(b"data")]
    assert list(events([stream[:end]])) == expected


@pytest.mark.parametrize(
    "stream",
    [
        b": nothing but this\n\n",
        b"event: ping\nid: 1\nretry: 5\n\n",
        b"\n\n\r\r",
        b"database: 1\n\n",
    ],
)
def test_comments_and_other_fields_are_no_events(stream: bytes) -> None:
    assert list(events([stream])) == []


@pytest.mark.parametrize(
    "piece",
    [b"data: " + b"x" * 1000, b"data: " + b"x" * 1000 + b"\n", b"data:\n" * 300, b": " * 500],
    ids=["line", "lines", "empty lines", "comment"],
)
def test_an_event_without_an_end_is_given_up(piece: bytes) -> None:
    enough = 2 * event_stream.MAX_EVENT_BYTES // 300
    with pytest.raises(EventTooLong):
        list(events(repeat(piece, enough)))


ARGUMENTS = st.dictionaries(
    st.text(max_size=4), st.text(max_size=8) | st.integers(-9, 9), max_size=3
)
WORD = st.text(st.sampled_from("abc_9"), min_size=1, max_size=8)
CALLS = st.lists(st.tuples(WORD, ARGUMENTS), min_size=1, max_size=4)


def assemble(deltas: Iterable[dict[str, Any]], taken: Sequence[str] = ()) -> tuple[ToolCall, ...]:
    calls = CallAssembler()
    for each in deltas:
        calls.add(msgspec.json.decode(json.dumps(each), type=CallDelta))
    new = count()
    return calls.finish([CallId(each) for each in taken], lambda: f"new-{next(new)}")


def told(calls: Iterable[ToolCall]) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in calls]


@st.composite
def manners(draw: st.DrawFn) -> tuple[list[tuple[str, Any]], list[dict[str, Any]]]:
    """Calls, and the deltas by which some server or other tells of them."""
    calls = draw(CALLS)
    has_ids = draw(st.booleans())
    index = draw(st.sampled_from(["own", "same", "none"]))
    again = draw(st.booleans())  # name and id are said with every piece
    if again and not has_ids and index != "own":
        again = False  # then nothing would tell a piece from another call
    deltas: list[dict[str, Any]] = []
    for number, (name, arguments) in enumerate(calls):
        written = json.dumps(arguments)
        places = draw(st.lists(st.integers(0, len(written)), max_size=3))
        for at, piece in enumerate(cut(written.encode(), places)):
            delta: dict[str, Any] = {"function": {"arguments": piece.decode()}}
            if at == 0 or again:
                delta["function"]["name"] = name
                if has_ids:
                    delta["id"] = f"call-{number}"
            if index != "none":
                delta["index"] = number if index == "own" else 0
            deltas.append(delta)
    return calls, deltas


NAMED = {"index": 0, "function": {"name": "f", "arguments": ""}}
FIRST = {"index": 0, "function": {"arguments": '{"a": 1}'}}
SECOND = {"index": 0, "function": {"arguments": "{}"}}


@given(manners())
@example(([("f", {"a": 1}), ("f", {})], [NAMED, FIRST, NAMED, SECOND]))
@example(([("f", {"a": 1})], [NAMED, FIRST, NAMED]))  # the name is only repeated
def test_calls_are_the_same_in_whatever_pieces_they_come(
    manner: tuple[list[tuple[str, Any]], list[dict[str, Any]]],
) -> None:
    calls, deltas = manner
    found = assemble(deltas)
    assert told(found) == calls
    ids = [call.call_id for call in found]
    assert len(set(ids)) == len(ids)
    if any("id" in each for each in deltas):
        assert ids == [f"call-{number}" for number in range(len(calls))]


@given(CALLS, st.randoms(use_true_random=False))
def test_calls_that_come_interleaved_are_told_apart_by_their_index(
    calls: list[tuple[str, Any]], random: Any
) -> None:
    queues = [
        [
            {"index": number, "id": f"call-{number}", "function": {"name": name}},
            *({"index": number, "function": {"arguments": each}} for each in json.dumps(arguments)),
        ]
        for number, (name, arguments) in enumerate(calls)
    ]
    deltas = [queue.pop(0) for queue in queues]
    while waiting := [queue for queue in queues if queue]:
        deltas.append(random.choice(waiting).pop(0))
    assert told(assemble(deltas)) == calls


@pytest.mark.parametrize("given_id", [None, "", "has a line\nend", "x" * 129, "wörd", "taken"])
def test_an_id_that_cannot_be_used_is_replaced(given_id: str | None) -> None:
    (call,) = assemble([{"id": given_id, "function": {"name": "f"}}], taken=["taken"])
    assert call == ToolCall(call_id=CallId("new-0"), name="f", arguments="{}")


def test_ids_that_a_server_repeats_are_told_apart() -> None:
    deltas = [{"index": at, "id": "same", "function": {"name": "f"}} for at in range(3)]
    assert [call.call_id for call in assemble(deltas)] == ["same", "new-0", "new-1"]


def test_arguments_may_be_an_object_instead_of_its_text() -> None:
    (call,) = assemble([{"function": {"name": "f", "arguments": {"a": [1, None]}}}])
    assert told([call]) == [("f", {"a": [1, None]})]


def test_arguments_that_are_no_json_are_left_as_they_are() -> None:
    (call,) = assemble([{"function": {"name": "f", "arguments": "{'a': "}}])
    assert call.arguments == "{'a': "


@pytest.mark.parametrize(
    "delta", [{}, {"id": "x"}, {"function": {}}, {"index": 3, "type": "function"}]
)
def test_a_call_of_nothing_is_none(delta: dict[str, Any]) -> None:
    assert assemble([delta]) == ()


@pytest.mark.parametrize("index", ["own", "none"])
def test_calls_without_an_end_are_given_up(index: str) -> None:
    deltas: list[dict[str, Any]] = [
        {"id": f"c{number}", "function": {"name": "f"}} for number in range(MAX_CALLS + 1)
    ]
    if index == "own":
        deltas = [{"index": number, **each} for number, each in enumerate(deltas)]
    assert len(assemble(deltas[:-1])) == MAX_CALLS
    with pytest.raises(TooManyCalls):
        assemble(deltas)
