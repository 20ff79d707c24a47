"""The table of contents through both clients: of a real daemon, and in a stand-in's words."""

from collections.abc import Callable, Iterator

import pytest

from agent_memory.client import (
    BrowseTocResult,
    BulletKind,
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
    WorkFigures,
)
from agent_memory.proto import memory_pb2 as pb
from tests.client.client_kinds import ClientKind
from tests.client.stand_in import serving
from tests.daemon_process import Daemon
from tests.toc_conversations import EVERYTHING, NIGHT, SHAPE, Toc, find_context

NEXT = "5"
NODE = pb.TocNode(
    node_id="toc:year:2026",
    level=pb.TOC_LEVEL_YEAR,
    title="2026",
    summary="System design",
    bullets=[
        pb.TocBullet(text="Rust", grip_ids=["grip:1", "grip:2"], kind="decided"),
        pb.TocBullet(text="Go", kind="of a newer daemon"),
    ],
    keywords=["rust", "grpc"],
    child_node_ids=["toc:month:2026-01"],
    start_time_ms=1_767_225_600_000,
    end_time_ms=1_798_761_599_999,
    version=2,
    session_id="s-42",
    project="lantern",
    work=pb.WorkFigures(sessions=1, prompts=2, commits=3, seconds=4, files=["a.rs", "b.rs"]),
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
    bullets=(
        TocBullet(text="Rust", grip_ids=("grip:1", "grip:2"), kind=BulletKind.DECIDED),
        TocBullet(text="Go", kind=BulletKind.NOTE),
    ),
    keywords=("rust", "grpc"),
    child_node_ids=("toc:month:2026-01",),
    start_time_ms=1_767_225_600_000,
    end_time_ms=1_798_761_599_999,
    version=2,
    session_id="s-42",
    project="lantern",
    work=WorkFigures(sessions=1, prompts=2, commits=3, seconds=4, files=("a.rs", "b.rs")),
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


def test_the_root_is_a_list_of_nodes(client_kind: ClientKind) -> None:
    answer = pb.GetTocRootResponse(nodes=[NODE, BARE]).SerializeToString()
    with serving({"GetTocRoot": answer}) as server, client_kind.connect(server.endpoint) as client:
        assert client.get_toc_root() == [A_NODE, A_BARE_NODE]


def test_a_node_is_found_by_its_id(client_kind: ClientKind) -> None:
    answer = pb.GetNodeResponse(node=NODE).SerializeToString()
    with serving({"GetNode": answer}) as server, client_kind.connect(server.endpoint) as client:
        assert client.get_node("toc:year:2026") == A_NODE
        assert server.asked["GetNode"] == [
            pb.GetNodeRequest(node_id="toc:year:2026").SerializeToString()
        ]


def test_no_such_node_is_none(client_kind: ClientKind) -> None:
    with serving({"GetNode": b""}) as server, client_kind.connect(server.endpoint) as client:
        assert client.get_node("toc:year:1999") is None


def test_children_come_in_pages(client_kind: ClientKind) -> None:
    answer = pb.BrowseTocResponse(children=[BARE], has_more=True, continuation_token=NEXT)
    with (
        serving({"BrowseToc": answer.SerializeToString()}) as server,
        client_kind.connect(server.endpoint) as client,
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


def test_a_grip_comes_with_the_events_around_it(client_kind: ClientKind) -> None:
    answer = pb.ExpandGripResponse(
        grip=GRIP,
        events_before=[message("a")],
        excerpt_events=[message("b"), message("c")],
        events_after=[message("d")],
    ).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, client_kind.connect(server.endpoint) as client:
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


def test_a_grip_need_not_belong_to_a_node(client_kind: ClientKind) -> None:
    answer = pb.ExpandGripResponse(grip=pb.Grip(grip_id="grip:1")).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, client_kind.connect(server.endpoint) as client:
        grip = client.expand_grip("grip:1").grip

    assert grip is not None
    assert grip.toc_node_id is None


def test_an_answer_may_be_larger_than_grpc_allows_by_itself(client_kind: ClientKind) -> None:
    long = [message(str(number), "x" * (1 << 20)) for number in range(6)]
    answer = pb.ExpandGripResponse(excerpt_events=long).SerializeToString()
    with serving({"ExpandGrip": answer}) as server, client_kind.connect(server.endpoint) as client:
        assert len(client.expand_grip("grip:1").excerpt_events) == 6


def test_no_such_grip_is_an_empty_result(client_kind: ClientKind) -> None:
    with serving({"ExpandGrip": b""}) as server, client_kind.connect(server.endpoint) as client:
        assert client.expand_grip("grip:none") == ExpandGripResult()


def test_a_server_without_a_table_of_contents_says_so(client_kind: ClientKind) -> None:
    calls: list[Callable[[MemoryClient], object]] = [
        lambda client: client.get_toc_root(),
        lambda client: client.get_node("n"),
        lambda client: client.browse_toc("n"),
        lambda client: client.expand_grip("g"),
    ]
    with serving({}) as server, client_kind.connect(server.endpoint) as client:
        for call in calls:
            with pytest.raises(RpcError) as caught:
                call(client)
            assert caught.value.code == "UNIMPLEMENTED"


@pytest.fixture(scope="module")
def recorded(shared_daemon: Daemon) -> Iterator[Toc]:
    """What the daemon says on the wire, once it has everything in its table of contents."""
    with shared_daemon.client() as connected:
        connected.ingest_all(EVERYTHING)
        toc = Toc(connected)
        toc.settle()
        yield toc


@pytest.mark.usefixtures("recorded")
def test_from_the_years_down_to_the_events_of_a_real_daemon(client: MemoryClient) -> None:
    years = client.get_toc_root()
    assert [year.node_id for year in years] == ["toc:year:2026", "toc:year:2024"]
    node = years[0]
    for level in (TocLevel.MONTH, TocLevel.WEEK, TocLevel.DAY, TocLevel.SEGMENT):
        page = client.browse_toc(node.node_id)
        assert [child.node_id for child in page.children] == list(node.child_node_ids)
        assert (page.has_more, page.continuation_token) == (False, None)
        node = page.children[-1]
        assert node.level is level
        assert client.get_node(node.node_id) == node
    assert (node.start_time_ms, node.end_time_ms) == (
        NIGHT[0].timestamp_ms,
        NIGHT[-1].timestamp_ms,
    )
    assert node.bullets
    for bullet in node.bullets:
        for grip_id in bullet.grip_ids:
            found = client.expand_grip(grip_id, events_before=100, events_after=100)
            assert found.grip is not None
            assert found.grip.toc_node_id == node.node_id
            (itself,) = found.excerpt_events
            assert found.grip.excerpt in itself.text
            wanted = find_context(EVERYTHING, itself.event_id)
            for events, messages in (
                (found.events_before, wanted.before),
                (found.events_after, wanted.after),
            ):
                assert [each.text for each in events] == [each.text for each in messages]


def test_a_node_of_a_real_daemon_has_all_that_the_wire_has(
    client: MemoryClient, recorded: Toc
) -> None:
    for wire in recorded.walk():
        node = client.get_node(wire.node_id)
        assert node == TocNode(
            node_id=wire.node_id,
            level=TocLevel(wire.level),
            title=wire.title,
            summary=wire.summary,
            bullets=tuple(
                TocBullet(text=each.text, grip_ids=tuple(each.grip_ids), kind=BulletKind(each.kind))
                for each in wire.bullets
            ),
            keywords=tuple(wire.keywords),
            child_node_ids=tuple(wire.child_node_ids),
            start_time_ms=wire.start_time_ms,
            end_time_ms=wire.end_time_ms,
            version=wire.version,
            session_id=wire.session_id,
            project=wire.project,
            work=WorkFigures(
                sessions=wire.work.sessions,
                prompts=wire.work.prompts,
                commits=wire.work.commits,
                seconds=wire.work.seconds,
                files=tuple(wire.work.files),
            ),
        )


@pytest.mark.usefixtures("recorded")
def test_tokens_of_a_real_daemon_lead_through_the_children(client: MemoryClient) -> None:
    found: list[str] = []
    token: str | None = None
    while True:
        page = client.browse_toc("toc:month:2026-01", 1, token)
        found += [child.node_id for child in page.children]
        assert page.has_more == (page.continuation_token is not None)
        if not page.has_more:
            break
        token = page.continuation_token
    assert found == SHAPE["toc:month:2026:01"]


@pytest.mark.usefixtures("recorded")
def test_a_real_daemon_says_what_it_does_not_know_and_what_makes_no_sense(
    client: MemoryClient,
) -> None:
    assert client.get_node("toc:year:1999") is None
    assert client.browse_toc("toc:year:1999") == BrowseTocResult()
    assert client.expand_grip("grip:none") == ExpandGripResult()
    calls: list[Callable[[], object]] = [
        lambda: client.get_node(""),
        lambda: client.browse_toc(""),
        lambda: client.browse_toc("toc:year:2026", -1),
        lambda: client.browse_toc("toc:year:2026", 1, "nonsense"),
        lambda: client.expand_grip(""),
        lambda: client.expand_grip("grip:none", events_before=-1),
    ]
    for call in calls:
        with pytest.raises(RpcError) as refused:
            call()
        assert refused.value.code == "INVALID_ARGUMENT"
