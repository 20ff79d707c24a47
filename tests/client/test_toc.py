"""The table of contents: today's daemon has none, so a stand-in answers in its words."""

from collections.abc import Callable

import pytest

from agent_memory.client import (
    BrowseTocResult,
    Event,
    EventRole,
    EventType,
    ExpandGripResult,
    Grip,
    MemoryClient,
    RpcError,
    TocBullet,
    TocLevel,
    TocNode,
)
from agent_memory.proto import memory_pb2 as pb
from tests.client.faces import Face
from tests.client.stand_in import serving

NEXT = "5"
NODE = pb.TocNode(
    node_id="toc:year:2026",
    level=pb.TOC_LEVEL_YEAR,
    title="2026",
    summary="System design",
    bullets=[pb.TocBullet(text="Rust", grip_ids=["grip:1", "grip:2"])],
    keywords=["rust", "grpc"],
    child_node_ids=["toc:month:2026-01"],
    start_time_ms=1_767_225_600_000,
    end_time_ms=1_798_761_599_999,
    version=2,
)
BARE = pb.TocNode(node_id="toc:segment:1", level=pb.TOC_LEVEL_SEGMENT, title="Rust")
GRIP = pb.Grip(
    grip_id="grip:1",
    excerpt="Rust's ownership",
    event_id_start="b",
    event_id_end="c",
    timestamp_ms=1_738_281_600_000,
    source="segment_summarizer",
    toc_node_id="toc:segment:1",
)

A_NODE = TocNode(
    node_id="toc:year:2026",
    level=TocLevel.YEAR,
    title="2026",
    summary="System design",
    bullets=(TocBullet(text="Rust", grip_ids=("grip:1", "grip:2")),),
    keywords=("rust", "grpc"),
    child_node_ids=("toc:month:2026-01",),
    start_time_ms=1_767_225_600_000,
    end_time_ms=1_798_761_599_999,
    version=2,
)
A_BARE_NODE = TocNode(node_id="toc:segment:1", level=TocLevel.SEGMENT, title="Rust")
A_GRIP = Grip(
    grip_id="grip:1",
    excerpt="Rust's ownership",
    event_id_start="b",
    event_id_end="c",
    timestamp_ms=1_738_281_600_000,
    source="segment_summarizer",
    toc_node_id="toc:segment:1",
)


def test_the_root_is_a_list_of_nodes(face: Face) -> None:
    answer = pb.GetTocRootResponse(nodes=[NODE, BARE]).SerializeToString()
    with serving({"GetTocRoot": answer}) as server, face.connect(server.endpoint) as client:
        assert client.get_toc_root() == [A_NODE, A_BARE_NODE]


def test_a_node_is_found_by_its_id(face: Face) -> None:
    answer = pb.GetNodeResponse(node=NODE).SerializeToString()
    with serving({"GetNode": answer}) as server, face.connect(server.endpoint) as client:
        assert client.get_node("toc:year:2026") == A_NODE
        assert server.asked["GetNode"] == [
            pb.GetNodeRequest(node_id="toc:year:2026").SerializeToString()
        ]


def test_no_such_node_is_none(face: Face) -> None:
    with serving({"GetNode": b""}) as server, face.connect(server.endpoint) as client:
        assert client.get_node("toc:year:1999") is None


def test_children_come_in_pages(face: Face) -> None:
    answer = pb.BrowseTocResponse(children=[BARE], has_more=True, continuation_token=NEXT)
    with (
        serving({"BrowseToc": answer.SerializeToString()}) as server,
        face.connect(server.endpoint) as client,
    ):
        page = client.browse_toc("toc:year:2026")
        client.browse_toc("toc:year:2026", 5, page.continuation_token)

        assert page == BrowseTocResult(
            children=(A_BARE_NODE,), has_more=True, continuation_token=NEXT
        )
        assert [pb.BrowseTocRequest.FromString(raw) for raw in server.asked["BrowseToc"]] == [
            pb.BrowseTocRequest(parent_id="toc:year:2026", limit=20),
            pb.BrowseTocRequest(parent_id="toc:year:2026", limit=5, continuation_token=NEXT),
        ]


def message(event_id: str, text: str = "") -> pb.Event:
    return pb.Event(
        event_id=event_id,
        session_id="s",
        timestamp_ms=1,
        event_type=pb.EVENT_TYPE_USER_MESSAGE,
        role=pb.EVENT_ROLE_USER,
        text=text,
    )


def event(event_id: str) -> Event:
    return Event(
        event_id=event_id,
        session_id="s",
        timestamp=1,
        event_type=EventType.USER_MESSAGE,
        role=EventRole.USER,
    )


def test_a_grip_comes_with_the_events_around_it(face: Face) -> None:
    answer = pb.ExpandGripResponse(
        grip=GRIP,
        events_before=[message("a")],
        excerpt_events=[message("b"), message("c")],
        events_after=[message("d")],
    ).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, face.connect(server.endpoint) as client:
        expanded = client.expand_grip("grip:1")
        client.expand_grip("grip:1", events_before=0, events_after=7)

        assert expanded == ExpandGripResult(
            grip=A_GRIP,
            events_before=(event("a"),),
            excerpt_events=(event("b"), event("c")),
            events_after=(event("d"),),
        )
        assert [pb.ExpandGripRequest.FromString(raw) for raw in server.asked["ExpandGrip"]] == [
            pb.ExpandGripRequest(grip_id="grip:1"),
            pb.ExpandGripRequest(grip_id="grip:1", events_before=0, events_after=7),
        ]


def test_a_grip_need_not_belong_to_a_node(face: Face) -> None:
    answer = pb.ExpandGripResponse(grip=pb.Grip(grip_id="grip:1")).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, face.connect(server.endpoint) as client:
        grip = client.expand_grip("grip:1").grip

    assert grip is not None
    assert grip.toc_node_id is None


def test_an_answer_may_be_larger_than_grpc_allows_by_itself(face: Face) -> None:
    long = [message(str(number), "x" * (1 << 20)) for number in range(6)]
    answer = pb.ExpandGripResponse(excerpt_events=long).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, face.connect(server.endpoint) as client:
        assert len(client.expand_grip("grip:1").excerpt_events) == 6


def test_no_such_grip_is_an_empty_result(face: Face) -> None:
    with serving({"ExpandGrip": b""}) as server, face.connect(server.endpoint) as client:
        assert client.expand_grip("grip:none") == ExpandGripResult()


def test_a_server_without_a_table_of_contents_says_so(face: Face) -> None:
    calls: list[Callable[[MemoryClient], object]] = [
        lambda client: client.get_toc_root(),
        lambda client: client.get_node("n"),
        lambda client: client.browse_toc("n"),
        lambda client: client.expand_grip("g"),
    ]
    with serving({}) as server, face.connect(server.endpoint) as client:
        for call in calls:
            with pytest.raises(RpcError) as caught:
                call(client)
            assert caught.value.code == "UNIMPLEMENTED"
