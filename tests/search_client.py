"""Search as another program calls it, and the content of a daemon's indexes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, wait_until
from tests.memory_client import SERVICE, Client
from tests.toc_conversations import Toc

SECONDS = 180.0  # far more than a few hundred texts take to be embedded


class Search:
    """The search call, over a client's connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, query: str = "", **fields: Any) -> pb.SearchResponse:
        answer: pb.SearchResponse = self._client.unary(
            f"/{SERVICE}/Search", pb.SearchRequest(query=query, **fields), pb.SearchResponse
        )
        return answer

    def ids(self, query: str = "", **fields: Any) -> list[str]:
        return [hit.id for hit in self(query, **fields).hits]

    def pages(self, query: str = "", **fields: Any) -> Iterator[pb.SearchResponse]:
        """Read page after page by the continuation tokens."""
        token: str | None = None
        while True:
            page = self(query, continuation_token=token, **fields)
            yield page
            if not page.HasField("continuation_token"):
                return
            token = page.continuation_token

    def all(self, **fields: Any) -> list[pb.SearchHit]:
        """Return everything in the index."""
        fields.setdefault("kinds", list(DocumentKind))
        return [hit for page in self.pages(limit=100, **fields) for hit in page.hits]


def connect(home: Home) -> Client:
    return Client(f"127.0.0.1:{home.status()['grpc_port']}")


def read_indexes(home: Home) -> dict[str, Any]:
    answer = home.run("memory-daemon", "admin", "index-stats", "--format", "json")
    assert answer.code == 0, answer
    found: dict[str, Any] = answer.json()
    return found


def count_waiting(home: Home) -> int:
    """Return how much neither index has processed."""
    found = read_indexes(home)
    count: int = found["words_waiting"] + found["vectors_waiting"]
    return count


def settle(home: Home, toc: Toc) -> None:
    """Wait until the table of contents and both indexes have processed everything."""
    toc.settle()
    wait_until(lambda: count_waiting(home) == 0, "the indexes have caught up", SECONDS)


def assert_everything_is_found_once(search: Search, toc: Toc, events: list[pb.Event]) -> int:
    """Check that each event, segment and grip is in the lexical index, and return their number."""
    segments = toc.segments()
    wanted = Counter(("event", event.event_id) for event in events if event.text)
    wanted.update(("segment", node.node_id) for node in segments)
    grips = {grip for node in segments for bullet in node.bullets for grip in bullet.grip_ids}
    wanted.update(("grip", grip) for grip in grips)
    assert Counter((hit.kind, hit.id) for hit in search.all()) == wanted
    return wanted.total()
