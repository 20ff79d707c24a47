"""One scenario through gRPC, REST, the commands and the client: each gives the same answers."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Protocol

import grpc
import httpx
import pytest
from google.protobuf.json_format import MessageToDict

from agent_memory.client import MemoryClient
from agent_memory.client.errors import RpcError
from agent_memory.interfaces.wire.events import event_to_proto
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.conversation_samples import START, THUMBNAILS, build_session
from tests.http_client import Web
from tests.memory_client import SERVICE, Client

END = START + 10**9
QUESTION = "why does the rotated picture lie on its side"
EVENTS = build_session("pictures", THUMBNAILS, project="thumbnails")

Answer = dict[str, Any]


class Refused(Exception):
    """The question was one that is refused."""


class Interface(Protocol):
    """The daemon as one interface shows it, in the JSON of all."""

    def events(self, start: int, end: int, limit: int) -> list[Answer]: ...

    def roots(self) -> list[Answer]: ...

    def node(self, name: str) -> Answer: ...

    def children(self, name: str) -> list[Answer]: ...

    def grip(self, name: str) -> Answer: ...

    def search(self, query: str, kind: str) -> list[Answer]: ...


class Grpc:
    def __init__(self, client: Client) -> None:
        self._client = client

    def events(self, start: int, end: int, limit: int) -> list[Answer]:
        request = pb.GetEventsRequest(from_timestamp_ms=start, to_timestamp_ms=end, limit=limit)
        found = self._ask("GetEvents", request, pb.GetEventsResponse)
        return [_plain(event) for event in found.events]

    def roots(self) -> list[Answer]:
        found = self._ask("GetTocRoot", pb.GetTocRootRequest(), pb.GetTocRootResponse)
        return [_plain(node) for node in found.nodes]

    def node(self, name: str) -> Answer:
        found = self._ask("GetNode", pb.GetNodeRequest(node_id=name), pb.GetNodeResponse)
        return _plain(found.node)

    def children(self, name: str) -> list[Answer]:
        request = pb.BrowseTocRequest(parent_id=name)
        found = self._ask("BrowseToc", request, pb.BrowseTocResponse)
        return [_plain(node) for node in found.children]

    def grip(self, name: str) -> Answer:
        request = pb.ExpandGripRequest(grip_id=name)
        return _plain(self._ask("ExpandGrip", request, pb.ExpandGripResponse))

    def search(self, query: str, kind: str) -> list[Answer]:
        request = pb.SearchRequest(query=query, kinds=[kind], limit=5)
        found = self._ask("Search", request, pb.SearchResponse)
        return [_hit(_plain(hit)) for hit in found.hits]

    def _ask(self, method: str, request: Any, answers: Any) -> Any:
        try:
            return self._client.unary(f"/{SERVICE}/{method}", request, answers)
        except grpc.RpcError as exc:
            if exc.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            raise Refused(exc.details()) from exc


class Rest:
    def __init__(self, api: httpx.Client) -> None:
        self._api = api

    def events(self, start: int, end: int, limit: int) -> list[Answer]:
        wanted = {"from_timestamp_ms": start, "to_timestamp_ms": end, "limit": limit}
        return list(self._get("/events/", wanted)["events"])

    def roots(self) -> list[Answer]:
        return list(self._get("/toc/")["nodes"])

    def node(self, name: str) -> Answer:
        return self._get(f"/toc/{name}/")

    def children(self, name: str) -> list[Answer]:
        return list(self._get(f"/toc/{name}/children/")["children"])

    def grip(self, name: str) -> Answer:
        return self._get(f"/grips/{name}/")

    def search(self, query: str, kind: str) -> list[Answer]:
        wanted = {"query": query, "kinds": kind, "limit": 5}
        return [_hit(hit) for hit in self._get("/search/", wanted)["results"]]

    def _get(self, path: str, wanted: Answer | None = None) -> Answer:
        answer = self._api.get(f"/api/v1{path}", params=wanted)
        if answer.status_code == 422:
            raise Refused(answer.json()["detail"])
        answer.raise_for_status()
        found: Answer = answer.json()
        return found


class Commands:
    def __init__(self, home: Home) -> None:
        self._home = home

    def events(self, start: int, end: int, limit: int) -> list[Answer]:
        words = ("events", "--from", str(start), "--to", str(end), "-l", str(limit))
        return list(self._run(*words)["events"])

    def roots(self) -> list[Answer]:
        return list(self._run("root")["nodes"])

    def node(self, name: str) -> Answer:
        found: Answer = self._run("node", name)
        return found

    def children(self, name: str) -> list[Answer]:
        return list(self._run("browse", name)["children"])

    def grip(self, name: str) -> Answer:
        found: Answer = self._run("expand", name)
        return found

    def search(self, query: str, kind: str) -> list[Answer]:
        found = self._run("search", query, "--kinds", f"{kind}s", "-l", "5")
        return [_hit(hit) for hit in found["results"]]

    def _run(self, *words: str) -> Any:
        answer = self._home.run("memory-daemon", "query", *words, "--format", "json")
        if answer.code == 11:
            raise Refused(answer.errors)
        assert answer.code == 0, answer.errors
        return answer.json()


class Library:
    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def events(self, start: int, end: int, limit: int) -> list[Answer]:
        try:
            found = self._client.get_events(start, end, limit)
        except RpcError as exc:
            raise Refused(str(exc)) from exc
        return [_event(event) for event in found.events]

    def roots(self) -> list[Answer]:
        return [_node(node) for node in self._client.get_toc_root()]

    def node(self, name: str) -> Answer:
        return _node(self._client.get_node(name))

    def children(self, name: str) -> list[Answer]:
        return [_node(node) for node in self._client.browse_toc(name).children]

    def grip(self, name: str) -> Answer:
        found = self._client.expand_grip(name)
        return {
            "grip": None if found.grip is None else asdict(found.grip),
            "events_before": [_event(event) for event in found.events_before],
            "excerpt_events": [_event(event) for event in found.excerpt_events],
            "events_after": [_event(event) for event in found.events_after],
        }

    def search(self, query: str, kind: str) -> list[Answer]:
        found = self._client.search(query, kinds=[kind], limit=5)
        return [_hit(asdict(hit)) for hit in found.hits]


def _plain(message: Any) -> Answer:
    """A message in the JSON of ours: numbers as numbers, enums as lower-case names."""
    shown = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {name: _value(name, value) for name, value in shown.items()}


def _value(name: str, value: Any) -> Any:
    match value:
        case dict() if name != "metadata":
            return {inner: _value(inner, each) for inner, each in value.items()}
        case list():
            return [_value(name, each) for each in value]
        case str() if name.endswith("_ms") or name == "seconds":
            return int(value)
        case str() if name in ("event_type", "role", "level"):
            prefix = {"event_type": "EVENT_TYPE_", "role": "EVENT_ROLE_", "level": "TOC_LEVEL_"}
            return value.removeprefix(prefix[name]).lower()
        case _:
            return value


def _event(event: Any) -> Answer:
    return {
        "event_id": event.event_id,
        "session_id": event.session_id,
        "timestamp_ms": round(event.timestamp.timestamp() * 1000),
        "event_type": event.event_type.name.lower(),
        "role": event.role.name.lower(),
        "text": event.text,
        "metadata": dict(event.metadata),
    }


def _node(node: Any) -> Answer:
    return {
        **asdict(node),
        "level": node.level.name.lower(),
        "bullets": [
            {"text": bullet.text, "grip_ids": list(bullet.grip_ids), "kind": bullet.kind}
            for bullet in node.bullets
        ],
        "work": asdict(node.work) | {"files": list(node.work.files)},
        "keywords": list(node.keywords),
        "child_node_ids": list(node.child_node_ids),
    }


def _hit(hit: Answer) -> Answer:
    """What every interface tells of something found."""
    names = ("kind", "id", "event_id", "session_id", "grip_id", "node_id")
    return {
        **{name: hit.get(name) or None for name in names},
        "score": round(hit["score"], 4),
        "timestamp_ms": int(hit["timestamp_ms"]),
    }


@pytest.fixture(scope="module")
def interfaces() -> Iterator[dict[str, Interface]]:
    with ExitStack() as stack:
        home = stack.enter_context(Home())
        home.serve()
        web = Web(home)
        target = f"unix:{web.record['grpc_socket']}"
        client = stack.enter_context(Client(target))
        api = stack.enter_context(web.client())
        library = stack.enter_context(MemoryClient.connect(target))
        assert all(each.created for each in client.ingest_all(map(event_to_proto, EVENTS)))
        fact = {"key": "orientation", "value": "pictures are turned upright before a resize"}
        assert api.post("/api/v1/memories/facts/", json=fact).status_code == 201
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            library.run_job(job)
        wait_until(lambda: bool(library.get_toc_root()), "a table of contents")
        yield {
            "gRPC": Grpc(client),
            "REST": Rest(api),
            "commands": Commands(home),
            "client": Library(library),
        }


def same(found: dict[str, Any]) -> Any:
    """What all of them say."""
    first, *others = found.values()
    for name, other in list(found.items())[1:]:
        assert other == first, name
    assert others
    return first


class TestParity:
    def test_events(self, interfaces: dict[str, Interface]) -> None:
        found = same(
            {name: interface.events(START, END, 100) for name, interface in interfaces.items()}
        )
        assert [each["event_id"] for each in found] == [each.event_id for each in EVENTS]
        some = same(
            {name: interface.events(START, END, 3) for name, interface in interfaces.items()}
        )
        assert some == found[:3]

    def test_a_range_that_ends_before_it_begins(self, interfaces: dict[str, Interface]) -> None:
        for interface in interfaces.values():
            with pytest.raises(Refused, match="swap them"):
                interface.events(END, START, 10)

    def test_the_table_of_contents_down_to_the_words(
        self, interfaces: dict[str, Interface]
    ) -> None:
        (year,) = same({name: interface.roots() for name, interface in interfaces.items()})
        node = year
        while node["level"] != "segment":
            name = node["node_id"]
            assert (
                same({each: interface.node(name) for each, interface in interfaces.items()}) == node
            )
            node, *_ = same(
                {each: interface.children(name) for each, interface in interfaces.items()}
            )
        grip_id = node["bullets"][0]["grip_ids"][0]
        expanded = same({name: interface.grip(grip_id) for name, interface in interfaces.items()})
        assert expanded["grip"]["excerpt"] in expanded["excerpt_events"][0]["text"]

    @pytest.mark.parametrize("kind", ["event", "segment", "grip", "fact"])
    def test_search(self, interfaces: dict[str, Interface], kind: str) -> None:
        found = same(
            {name: interface.search(QUESTION, kind) for name, interface in interfaces.items()}
        )
        assert found
        assert {each["kind"] for each in found} == {kind}
