"""Each filter of a search, through every interface of a real daemon: the results are the same, and
so is the passage that each of them shows."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, NamedTuple

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from agent_memory.client import MemoryClient, Passage
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.recall.model.search_filters import KIND_WORDS
from agent_memory.features.recall.search_operations import SearchParameters
from agent_memory.interfaces.wire.events import event_to_proto
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Answer as Ran
from tests.command_runner import Home
from tests.conversation_samples import START, THUMBNAILS, build_session
from tests.http_client import Web
from tests.mcp_clients import LineClient
from tests.memory_client import SERVICE, Client
from tests.toc_conversations import OUTBOX, Toc

EVENTS = [
    *build_session("pictures", THUMBNAILS, project="thumbnails"),
    *build_session("pier", THUMBNAILS, start=START + 10**6, agent="codex", project="lanterns"),
]
PLURAL_OF = {
    DocumentKind.EVENT: "events",
    DocumentKind.SEGMENT: "segments",
    DocumentKind.GRIP: "grips",
    DocumentKind.MEMORY: "memories",
    DocumentKind.FACT: "facts",
}
MIDDLE = START + 10**6 - 1
GRPC_NAMES = {
    "since": "from_timestamp_ms",
    "until": "to_timestamp_ms",
    "min_similarity": "min_score",
    "offset": "continuation_token",
}
REST_NAMES = {name: alias for name, alias in GRPC_NAMES.items() if name != "offset"}
MANY = 100
TOKEN = {"offset": "continuation_token"}
OPTIONS = {"session_id": "session", "statuses": "status", "kinds": "in"}

Filters = dict[str, Any]


class Found(NamedTuple):
    """A hit: its kind, its name, and its passage as JSON. A brief answer has no passages."""

    kind: str
    id: str
    passage: dict[str, Any] | None


class Answer(NamedTuple):
    hits: list[Found]
    certain: bool

    @property
    def ids(self) -> list[str]:
        return [hit.id for hit in self.hits]


Find = Callable[[Filters], Answer]

CASES: dict[str, Filters] = {
    "query": {"query": "orientation", "mode": "bm25", "kinds": ["event"]},
    "kinds": {"kinds": ["grip"]},
    "mode": {"query": "orientation", "mode": "bm25", "kinds": ["event", "memory"]},
    "limit": {"kinds": ["event"], "limit": 3},
    "offset": {"kinds": ["event"], "limit": 5, "offset": 4},
    "project": {"kinds": ["event"], "project": "lanterns"},
    "session_id": {"kinds": ["event"], "session_id": "pier"},
    "agent": {"kinds": ["event"], "agent": "codex"},
    "role": {"kinds": ["event"], "role": "assistant"},
    "namespace": {"kinds": ["memory"], "namespace": "decisions"},
    "domain": {"kinds": ["memory"], "domain": "user,project:lanterns"},
    "spec": {"kinds": ["memory"], "spec": "pictures"},
    "statuses": {"kinds": ["memory"], "statuses": ["resolved", "archived"]},
    "include_archived": {"kinds": ["memory"], "include_archived": True},
    "tags": {"kinds": ["memory"], "tags": ["upright", "jpeg"]},
    "since": {"kinds": ["event"], "since": MIDDLE},
    "until": {"kinds": ["event"], "until": MIDDLE},
    "min_similarity": {
        "query": "orientation resize", "mode": "bm25", "kinds": ["event"], "min_similarity": 0.1
    },
}  # fmt: skip


def rename(filters: Filters, names: dict[str, str]) -> Filters:
    return {names.get(name, name): value for name, value in filters.items()}


def stringify(filters: Filters, *names: str) -> Filters:
    return {name: str(value) if name in names else value for name, value in filters.items()}


def read_hit(hit: dict[str, Any]) -> Found:
    return Found(hit["kind"], hit["id"], hit.get("passage"))


def read_answer(answer: dict[str, Any]) -> Answer:
    return Answer(list(map(read_hit, answer["results"])), answer["certain"])


def read_message(hit: pb.SearchHit) -> Found:
    return Found(hit.kind, hit.id, read_passage(hit.passage) if hit.HasField("passage") else None)


def read_passage(passage: pb.Passage) -> dict[str, Any]:
    marks = [[mark.start, mark.end] for mark in passage.marks]
    return {"text": passage.text, "start": passage.start, "end": passage.end, "marks": marks}


def to_json(passage: Passage | None) -> dict[str, Any] | None:
    if passage is None:
        return None
    return asdict(passage) | {"marks": [list(mark) for mark in passage.marks]}


def over_grpc(client: Client) -> Find:
    def find(filters: Filters) -> Answer:
        request = pb.SearchRequest(**stringify(rename(filters, GRPC_NAMES), "continuation_token"))
        answer = client.unary(f"/{SERVICE}/Search", request, pb.SearchResponse)
        return Answer(list(map(read_message, answer.hits)), answer.certain)

    return find


def over_client(client: MemoryClient) -> Find:
    def find(filters: Filters) -> Answer:
        named = stringify(rename(filters, GRPC_NAMES), "continuation_token")
        answer = client.search(named.pop("query", ""), **named)
        hits = [Found(hit.kind, hit.id, to_json(hit.passage)) for hit in answer.hits]
        return Answer(hits, answer.certain)

    return find


def over_rest(api: httpx.Client) -> Find:
    def find(filters: Filters) -> Answer:
        answer = api.get("/api/v1/search/", params=rename(filters, REST_NAMES))
        answer.raise_for_status()
        return read_answer(answer.json())

    return find


def to_body(filters: Filters) -> Filters:
    return stringify(rename(filters, TOKEN), "continuation_token", "since", "until")


def over_sse(api: httpx.Client) -> Find:
    def find(filters: Filters) -> Answer:
        answer = api.post("/stream/recall", json=to_body(filters))
        answer.raise_for_status()
        events = [
            (lines, json.loads(lines[-1].removeprefix("data: ")))
            for block in answer.text.split("\n\n")
            if (lines := block.splitlines()) and lines[-1].startswith("data: ")
        ]
        (end,) = (data for lines, data in events if "event: complete" in lines)
        hits = [read_hit(data["memory"]) for lines, data in events if "event: result" in lines]
        return Answer(hits, end["result"]["certain"])

    return find


def over_websocket(socket: ClientConnection) -> Find:
    def find(filters: Filters) -> Answer:
        socket.send(json.dumps({"operation": "recall", **to_body(filters)}))
        hits: list[Found] = []
        while (answer := json.loads(socket.recv()))["type"] == "result":
            hits.append(read_hit(answer["data"]["memory"]))
        assert answer["type"] == "complete", answer
        return Answer(hits, answer["result"]["certain"])

    return find


def over_mcp(server: LineClient) -> Find:
    def find(filters: Filters) -> Answer:
        detail = "minimal" if filters.get("limit") == MANY else "summary"  # an answer is limited
        server.call(1, "memory_recall", **to_body(filters), detail=detail)
        while (answer := server.receive()).get("id") != 1:
            pass
        result = answer["result"]["structuredContent"]
        assert "note" not in result
        return read_answer(result)

    return find


def over_commands(run: Callable[..., Ran], *command: str) -> Find:
    def find(filters: Filters) -> Answer:
        words = [*command, *filters.get("query", "").split()]
        for name, value in rename(filters, OPTIONS).items():
            option = f"--{name.replace('_', '-')}"
            match name, value:
                case "query", _:
                    pass
                case _, True:
                    words.append(option)
                case "status", list():
                    words += [word for status in value for word in (option, status)]
                case _, list():
                    words += [option, ",".join(value)]
                case _:
                    words += [option, str(value)]
        answer = run(*words, "--format", "json")
        assert answer.code == 0, answer.errors
        return read_answer(answer.json())

    return find


def capture(home: Home, namespace: str, summary: str, *options: str, domain: str = "user") -> str:
    words = ("capture", namespace, summary, "--domain", domain, *options, "--format", "json")
    answer = home.run("memory", *words)
    assert answer.code == 0, answer.errors
    name: str = answer.json()["memory_id"]
    return name


def fill(home: Home, client: Client, api: httpx.Client) -> None:
    assert all(each.created for each in client.ingest_all(map(event_to_proto, EVENTS)))
    fact = {"key": "orientation", "value": "pictures are turned upright before a resize"}
    assert api.post("/api/v1/memories/facts/", json=fact).status_code == 201
    capture(home, "decisions", "Turn pictures upright first", "--tags", "upright,jpeg")
    capture(home, "decisions", "Keep originals", "--tags", "upright", "--spec", "pictures")
    capture(home, "learnings", "A resize loses the orientation", "--spec", "pictures")
    capture(home, "patterns", "Sizes are powers of two", domain="project")
    resolved = capture(home, "blockers", "No test has a rotated picture")
    archived = capture(home, "progress", "Half of the sizes are done")
    assert home.run("memory", "resolve", resolved).code == 0
    assert home.run("memory", "archive", archived).code == 0
    toc = Toc(client)
    toc.settle()
    assert toc.run(OUTBOX).success


@pytest.fixture(scope="module")
def interfaces() -> Iterator[dict[str, Find]]:
    with ExitStack() as stack:
        home = stack.enter_context(Home())
        home.serve()
        web = Web(home)
        target = f"unix:{web.record['grpc_socket']}"
        client = stack.enter_context(Client(target))
        api = stack.enter_context(web.client())
        fill(home, client, api)
        socket = connect(
            f"ws://{web.place}/ws",
            additional_headers={"Authorization": f"Bearer {web.key}"},
            proxy=None,
        )
        remote = ("memory-daemon", "query", "-e", target, "search")
        yield {
            "gRPC": over_grpc(client),
            "client": over_client(stack.enter_context(MemoryClient.connect(target))),
            "REST": over_rest(api),
            "SSE": over_sse(api),
            "WebSocket": over_websocket(stack.enter_context(socket)),
            "MCP": over_mcp(stack.enter_context(LineClient(home))),
            "memory recall": over_commands(home.run, "memory", "recall"),
            "query search": over_commands(home.run, "memory-daemon", "query", "search"),
            "query search, remote": over_commands(home.run_forked, *remote),
        }


def test_every_filter_has_a_case() -> None:
    names = set(SearchParameters.__struct_fields__) - {"detail", "continuation_token"}
    assert CASES.keys() == names


@pytest.mark.parametrize("name", CASES)
def test_every_interface_filters_alike(interfaces: dict[str, Find], name: str) -> None:
    filters = {"limit": MANY, **CASES[name]}
    results = {interface: find(filters).ids for interface, find in interfaces.items()}
    expected = results["gRPC"]
    assert expected
    assert results == dict.fromkeys(results, expected)
    if name not in ("query", "mode"):
        others = {other: value for other, value in filters.items() if other != name}
        assert interfaces["gRPC"](others).ids != expected, "the filter has no effect"


@pytest.mark.parametrize("word", KIND_WORDS)
def test_every_interface_takes_the_same_words_for_kinds(
    interfaces: dict[str, Find], word: str
) -> None:
    filters = {"query": "orientation resize originals", "mode": "bm25", "limit": MANY}
    results = {name: find({**filters, "kinds": [word]}).hits for name, find in interfaces.items()}
    expected = DocumentKind if word == "all" else find_kinds(word)
    assert {hit.kind for hit in results["gRPC"]} == {kind.value for kind in expected}
    ids = {name: [hit.id for hit in hits] for name, hits in results.items()}
    assert ids == dict.fromkeys(ids, ids["gRPC"])


def find_kinds(word: str) -> list[DocumentKind]:
    return [kind for kind in DocumentKind if word in (kind.value, PLURAL_OF[kind])]


def test_every_interface_takes_the_beginning_of_a_session(interfaces: dict[str, Find]) -> None:
    whole = {"kinds": ["event"], "session_id": "pictures", "limit": MANY}
    expected = interfaces["gRPC"](whole).ids
    results = {name: find({**whole, "session_id": "pict"}).ids for name, find in interfaces.items()}
    assert expected
    assert results == dict.fromkeys(results, expected)


def test_every_interface_shows_the_same_passages(interfaces: dict[str, Find]) -> None:
    filters = {"query": "orientation", "mode": "bm25", "kinds": ["event"], "limit": 3}
    results = {interface: find(filters) for interface, find in interfaces.items()}
    expected = results["gRPC"]
    assert results == dict.fromkeys(results, expected)
    marked = {
        each.passage["text"][start:end].lower()
        for each in expected.hits
        if each.passage is not None
        for start, end in each.passage["marks"]
    }
    assert marked == {"orientation"}


@pytest.mark.parametrize(
    "filters",
    [
        {"query": "why is the orientation lost when a picture is resized"},
        {"query": "orientation of pictures", "mode": "bm25"},
        {"query": "which decisions about originals"},
        {"query": "a zeppelin over the orientation of nothing"},
    ],
    ids=lambda filters: filters["query"],
)
def test_every_interface_answers_alike_by_default(
    interfaces: dict[str, Find], filters: Filters
) -> None:
    results = {interface: find({**filters, "limit": 12}) for interface, find in interfaces.items()}
    expected = results["gRPC"]
    assert expected.hits
    assert results == dict.fromkeys(results, expected)


def test_by_default_everything_but_grips_is_searched(interfaces: dict[str, Find]) -> None:
    filters = {"query": "orientation of pictures and originals", "limit": MANY}
    found = interfaces["gRPC"](filters)
    assert {hit.kind for hit in found.hits} == {"memory", "fact", "event", "segment"}
    every = interfaces["gRPC"]({**filters, "kinds": [kind.value for kind in DocumentKind]})
    assert "grip" in {hit.kind for hit in every.hits}


def test_by_default_every_interface_lists_memories(interfaces: dict[str, Find]) -> None:
    results = {interface: find({"limit": MANY}) for interface, find in interfaces.items()}
    expected = results["gRPC"]
    assert {hit.kind for hit in expected.hits} == {"memory"}
    assert expected.certain
    assert {name: (answer.ids, answer.certain) for name, answer in results.items()} == (
        dict.fromkeys(results, (expected.ids, True))
    )
