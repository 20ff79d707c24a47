"""Search through both clients: of a real daemon, and in a stand-in's words."""

from collections.abc import Callable, Iterator

import pytest

from agent_memory.client import (
    AsyncMemoryClient,
    MemoryClient,
    Passage,
    RpcError,
    SearchHit,
    SearchResult,
    SerializationError,
)
from agent_memory.proto import memory_pb2 as pb
from tests.client.client_kinds import ClientKind
from tests.client.conftest import Maker
from tests.client.stand_in import serving
from tests.daemon_process import Daemon
from tests.toc_conversations import EVERYTHING, NIGHT, OUTBOX, Toc

NEXT = "5"
HIT = pb.SearchHit(
    kind="memory",
    id="m-1",
    uri="subcog://project:a/decisions/m-1",
    score=0.75,
    title="Use Rust",
    text="Because of its ownership.",
    event_id="e-1",
    session_id="s",
    timestamp_ms=1_767_225_600_000,
    grip_id="grip:1",
    node_id="toc:segment:1",
    score_parts={"words": 0.5, "meaning": 0.25},
    last_event_id="e-2",
    role="user",
    speaker="Melanie",
    project="a",
    namespace="decisions",
    domain="project:a",
    tags=["lang", "rust"],
    spec="auth",
    status="active",
    truncated=True,
    agent="claude",
    tool_name="Bash",
    relates_to=["decisions:abc1234:0"],
    passage=pb.Passage(text="its ownership.", start=11, end=25, marks=[pb.Mark(start=4, end=13)]),
)
A_HIT = SearchHit(
    kind="memory",
    id="m-1",
    uri="subcog://project:a/decisions/m-1",
    score=0.75,
    title="Use Rust",
    text="Because of its ownership.",
    truncated=True,
    event_id="e-1",
    last_event_id="e-2",
    session_id="s",
    timestamp_ms=1_767_225_600_000,
    grip_id="grip:1",
    node_id="toc:segment:1",
    role="user",
    speaker="Melanie",
    agent="claude",
    tool_name="Bash",
    project="a",
    namespace="decisions",
    domain="project:a",
    spec="auth",
    status="active",
    tags=("lang", "rust"),
    score_parts={"words": 0.5, "meaning": 0.25},
    relates_to=("decisions:abc1234:0",),
    passage=Passage(text="its ownership.", start=11, end=25, marks=((4, 13),)),
)


def test_a_hit_has_all_that_the_wire_has(client_kind: ClientKind) -> None:
    answer = pb.SearchResponse(
        hits=[HIT], total=7, certain=True, warning="words alone", continuation_token=NEXT
    )
    with (
        serving({"Search": answer.SerializeToString()}) as server,
        client_kind.connect(server.endpoint) as client,
    ):
        assert client.search("why Rust?") == SearchResult(
            hits=(A_HIT,), total=7, certain=True, warning="words alone", continuation_token=NEXT
        )
        assert {field.name for field in pb.SearchHit.DESCRIPTOR.fields} == set(SearchHit.__slots__)


def test_nothing_found_is_an_empty_result(client_kind: ClientKind) -> None:
    with serving({"Search": b""}) as server, client_kind.connect(server.endpoint) as client:
        assert client.search("why?") == SearchResult()


def test_filters_reach_the_wire_and_what_is_left_out_does_not(client_kind: ClientKind) -> None:
    with serving({"Search": b""}) as server, client_kind.connect(server.endpoint) as client:
        client.search("why Rust?")
        client.search("")
        client.search(
            "why Rust?",
            kinds=["event", "grip"],
            mode="bm25",
            limit=7,
            project="a",
            session_id="s",
            agent="claude",
            role="user",
            namespace="decisions",
            domain="project:a",
            tags=["x", "y"],
            spec="auth",
            statuses=["active"],
            include_archived=True,
            from_timestamp_ms=0,
            to_timestamp_ms=5,
            min_score=0.5,
            continuation_token=NEXT,
        )
        client.search("x", continuation_token=None)

        asked = [pb.SearchRequest.FromString(raw) for raw in server.asked["Search"]]
    full = pb.SearchRequest(
        query="why Rust?",
        kinds=["event", "grip"],
        mode="bm25",
        limit=7,
        project="a",
        session_id="s",
        agent="claude",
        role="user",
        namespace="decisions",
        domain="project:a",
        tags=["x", "y"],
        spec="auth",
        statuses=["active"],
        include_archived=True,
        from_timestamp_ms=0,
        to_timestamp_ms=5,
        min_score=0.5,
        continuation_token=NEXT,
    )
    assert asked == [
        pb.SearchRequest(query="why Rust?"),
        pb.SearchRequest(),
        full,
        pb.SearchRequest(query="x"),
    ]
    assert {field.name for field, _ in full.ListFields()} == {
        field.name for field in pb.SearchRequest.DESCRIPTOR.fields
    }


def test_what_cannot_be_sent_is_refused_before_it_is(client_kind: ClientKind) -> None:
    calls: list[Callable[[MemoryClient], object]] = [
        lambda client: client.search("\ud800"),
        lambda client: client.search("x", limit=1 << 40),
        lambda client: client.search("x", limit="ten"),  # type: ignore[arg-type]
        lambda client: client.search("x", tags=[1]),  # type: ignore[list-item]
    ]
    with serving({"Search": b""}) as server, client_kind.connect(server.endpoint) as client:
        for call in calls:
            with pytest.raises(SerializationError):
                call(client)
        assert "Search" not in server.asked


def test_a_server_without_search_says_so(client_kind: ClientKind) -> None:
    with serving({}) as server, client_kind.connect(server.endpoint) as client:
        with pytest.raises(RpcError) as caught:
            client.search("x")
        assert caught.value.code == "UNIMPLEMENTED"


def test_an_answer_may_be_larger_than_grpc_allows_by_itself(client_kind: ClientKind) -> None:
    long = pb.SearchHit(id="long", text="x" * (1 << 20))
    answer = pb.SearchResponse(hits=[long] * 6).SerializeToString()
    with serving({"Search": answer}) as server, client_kind.connect(server.endpoint) as client:
        assert len(client.search("x").hits) == 6


@pytest.fixture(scope="module")
def recorded(shared_daemon: Daemon) -> Iterator[Toc]:
    """A real daemon that has everything in its table of contents and its index."""
    with shared_daemon.client() as connected:
        connected.ingest_all(EVERYTHING)
        toc = Toc(connected)
        toc.settle()
        assert toc.run(OUTBOX).success
        yield toc


@pytest.mark.usefixtures("recorded")
def test_the_hits_of_a_real_daemon_say_where_they_stand(client: MemoryClient) -> None:
    result = client.search("museum backup at midnight", kinds=["event"], mode="bm25")
    best = result.hits[0]
    assert (best.kind, best.id, best.event_id) == ("event",) + (NIGHT[0].event_id,) * 2
    assert (best.session_id, best.role, best.text) == ("night", "user", NIGHT[0].text)
    assert best.timestamp_ms == NIGHT[0].timestamp_ms
    assert (best.truncated, best.tags) == (False, ())
    assert best.uri == f"memory://events/{NIGHT[0].event_id}"
    assert 0 < best.score <= 1
    assert best.score_parts["words"] > 0
    assert result.warning is None
    node = client.get_node(best.node_id)
    assert node is not None
    assert node.start_time_ms == NIGHT[0].timestamp_ms


@pytest.mark.usefixtures("recorded")
def test_a_grip_that_is_found_can_be_expanded(client: MemoryClient) -> None:
    hit = client.search("museum backup", kinds=["grip"], mode="bm25").hits[0]
    expanded = client.expand_grip(hit.grip_id)
    assert expanded.grip is not None
    assert expanded.grip.excerpt == hit.text
    assert [event.event_id for event in expanded.excerpt_events] == [hit.event_id]


@pytest.mark.usefixtures("recorded")
def test_tokens_of_a_real_daemon_lead_through_all_hits(client: MemoryClient) -> None:
    for query in ("ferry and mill", ""):
        at_once = client.search(query, limit=100)
        assert at_once.continuation_token is None
        found: list[str] = []
        token: str | None = None
        while True:
            page = client.search(query, limit=7, continuation_token=token)
            assert page.total == at_once.total
            found += [hit.id for hit in page.hits]
            token = page.continuation_token
            if token is None:
                break
        assert found == [hit.id for hit in at_once.hits]


@pytest.mark.usefixtures("recorded")
def test_without_an_embedder_a_real_daemon_warns(client: MemoryClient) -> None:
    warning = client.search("museum").warning
    assert warning is not None
    assert "embedder.provider" in warning


@pytest.mark.usefixtures("recorded")
def test_an_event_is_found_as_soon_as_it_is_ingested(
    client: MemoryClient, event: Maker, name: str
) -> None:
    said = event(f"fresh-{name}", text=f"zq{name} is here", session_id=name)
    client.ingest(said)
    for filters in ({"mode": "bm25"}, {"session_id": name}, {"role": "user"}):
        found = client.search(f"zq{name}", kinds=["event"], **filters)  # type: ignore[arg-type]
        assert [hit.id for hit in found.hits] == [f"fresh-{name}"]
    assert client.search(f"zq{name}", kinds=["event"], role="tool").hits == ()


@pytest.mark.usefixtures("recorded")
def test_a_real_daemon_refuses_what_makes_no_sense(client: MemoryClient) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("events, segments, grips, memories, facts", lambda: client.search("x", kinds=["node"])),
        ("hybrid, vector, bm25", lambda: client.search("x", mode="fuzzy")),
        ("continuation_token", lambda: client.search("x", continuation_token="nonsense")),  # noqa: S106
        ("negative", lambda: client.search("x", limit=-1)),
        ("begins", lambda: client.search("x", from_timestamp_ms=2, to_timestamp_ms=1)),
        ("10,000", lambda: client.search("x" * 10_001)),
        ("0 to 1", lambda: client.search("x", min_score=2.0)),
    ]
    for words, call in calls:
        with pytest.raises(RpcError) as refused:
            call()
        assert refused.value.code == "INVALID_ARGUMENT"
        assert words in refused.value.details


def test_both_clients_take_the_same_filters() -> None:
    assert MemoryClient.search.__annotations__ == AsyncMemoryClient.search.__annotations__
