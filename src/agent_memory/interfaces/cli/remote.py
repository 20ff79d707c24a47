"""The services of another daemon over gRPC, for commands with `--endpoint`."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TypeVar

from agent_memory import client
from agent_memory.client import (
    ClientError,
    ConnectionFailed,
    InvalidEndpoint,
    MemoryClient,
    RpcError,
    SerializationError,
    calls,
)
from agent_memory.client.connection import Connection
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit, Passage, Query, RecallResult
from agent_memory.features.log.model.events import Event, EventPage, EventRole, EventType
from agent_memory.features.toc.model.highlights import Work
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import Bullet, Grip, GripId, TocNode
from agent_memory.features.toc.services.contents import Children, Expansion
from agent_memory.interfaces.wire import rpc
from agent_memory.interfaces.wire.search import HIT_FIELDS
from agent_memory.interfaces.wire.toc import parse_kind
from agent_memory.interfaces.wire.tokens import format_token, parse_offset, parse_token
from agent_memory.kernel.errors import (
    AgentMemoryError,
    InvalidInput,
    NotFound,
    RemoteUnavailable,
    Unauthorized,
)
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.kernel.operations import Operation

_ERRORS: Mapping[str, type[AgentMemoryError]] = {
    "INVALID_ARGUMENT": InvalidInput,
    "NOT_FOUND": NotFound,
    "UNAUTHENTICATED": Unauthorized,
    "UNAVAILABLE": RemoteUnavailable,
    "DEADLINE_EXCEEDED": RemoteUnavailable,
}


A = TypeVar("A")


class RemoteDaemon:
    """The services of a daemon, called over gRPC."""

    def __init__(self, connection: Connection, client: MemoryClient) -> None:
        self._connection, self._client = connection, client

    def call(self, operation: Operation[A], request: object, /) -> A:
        """Ask the other daemon. Raises AgentMemoryError."""
        answer: A = self._connection.send(
            calls.Unary(
                path=rpc.find_path(operation),
                request=rpc.pack_request(operation, request),
                parse=lambda content: rpc.unpack_answer(operation, content),
            )
        )
        return answer

    def list_events(
        self, start: int, end: int, *, limit: int = 0, after: Position | None = None
    ) -> EventPage:
        token = None if after is None else format_token(after)
        page = self._client.get_events(start, end, limit, token)
        return EventPage(
            events=tuple(map(_event, page.events)),
            next=parse_token(page.continuation_token) if page.continuation_token else None,
        )

    def search(self, query: Query, /) -> RecallResult:
        scope = query.scope
        page = self._client.search(
            query.text,
            kinds=sorted(scope.kinds),
            mode=query.mode,
            limit=query.limit,
            project=scope.project,
            session_id=scope.session,
            agent=scope.agent,
            role=scope.role,
            namespace=scope.namespace,
            domain=",".join(sorted(scope.domains)),
            tags=sorted(scope.tags),
            spec=scope.spec,
            statuses=sorted(scope.statuses),
            include_archived=scope.archived,
            from_timestamp_ms=scope.since,
            to_timestamp_ms=scope.until,
            min_score=query.min_score,
            continuation_token=str(query.offset) if query.offset else None,
        )
        token = page.continuation_token
        return RecallResult(
            hits=tuple(map(_hit, page.hits)),
            total=page.total,
            next=None if token is None else parse_offset(token),
            warning=page.warning,
            certain=page.certain,
        )

    def list_years(self) -> list[TocNode]:
        return [_node(node) for node in self._client.get_toc_root()]

    def get_node(self, node_id: str, /) -> TocNode | None:
        node = self._client.get_node(node_id)
        return None if node is None else _node(node)

    def list_children(self, parent_id: str, /, *, limit: int = 0, offset: int = 0) -> Children:
        page = self._client.browse_toc(parent_id, limit, str(offset))
        token = page.continuation_token
        return Children(
            nodes=tuple(map(_node, page.children)),
            next=parse_offset(token) if token else None,
        )

    def expand(
        self, grip_id: str, /, *, before: int | None = None, after: int | None = None
    ) -> Expansion:
        expanded = self._client.expand_grip(grip_id, before, after)
        grip = expanded.grip
        return Expansion(
            grip=None
            if grip is None
            else Grip(
                grip_id=GripId(grip.grip_id),
                excerpt=grip.excerpt,
                event_id_start=EventId(grip.event_id_start),
                event_id_end=EventId(grip.event_id_end),
                at_ms=Millis(grip.timestamp_ms),
                source=grip.source,
                node_id=NodeId(grip.toc_node_id or ""),
            ),
            before=tuple(map(_event, expanded.events_before)),
            excerpt=tuple(map(_event, expanded.excerpt_events)),
            after=tuple(map(_event, expanded.events_after)),
        )


def _event(event: client.Event) -> Event:
    return Event(
        event_id=EventId(event.event_id),
        session_id=SessionId(event.session_id),
        at_ms=Millis(event.timestamp_ms),
        type=EventType(event.event_type),
        role=EventRole(event.role),
        text=event.text,
        metadata=event.metadata,
    )


def _node(node: client.TocNode) -> TocNode:
    return TocNode(
        node_id=NodeId(node.node_id),
        level=Level(node.level),
        title=node.title,
        summary=node.summary or "",
        bullets=tuple(
            Bullet(
                text=bullet.text,
                grip_ids=tuple(GripId(grip_id) for grip_id in bullet.grip_ids),
                weight=0.0,
                kind=parse_kind(bullet.kind),
            )
            for bullet in node.bullets
        ),
        keywords=tuple(node.keywords),
        child_ids=tuple(NodeId(child) for child in node.child_node_ids),
        start_ms=Millis(node.start_time_ms),
        end_ms=Millis(node.end_time_ms),
        version=node.version,
        session=node.session_id,
        project=node.project,
        work=Work(
            sessions=node.work.sessions,
            prompts=node.work.prompts,
            commits=node.work.commits,
            seconds=node.work.seconds,
            files=node.work.files,
        ),
    )


@contextmanager
def connect(endpoint: str, key: str | None) -> Iterator[RemoteDaemon]:
    with translate_errors():
        connection = Connection.open(
            endpoint,
            key=key,
            timeout_seconds=calls.CALL_SECONDS,
            connect_seconds=calls.CONNECT_SECONDS,
        )
        with closing(connection):
            yield RemoteDaemon(connection, MemoryClient(connection))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise errors of the client as AgentMemoryErrors."""
    try:
        yield
    except (InvalidEndpoint, SerializationError) as exc:
        raise InvalidInput(str(exc)) from exc
    except ConnectionFailed as exc:
        raise RemoteUnavailable(str(exc)) from exc
    except RpcError as exc:
        raise _ERRORS.get(exc.code, AgentMemoryError)(exc.details) from exc
    except ClientError as exc:
        raise AgentMemoryError(str(exc)) from exc


def _passage(passage: client.Passage) -> Passage:
    return Passage(text=passage.text, start=passage.start, marks=passage.marks)


def _hit(hit: client.SearchHit) -> Hit:
    values = {field.path: getattr(hit, field.name) for field in HIT_FIELDS}
    own = {path: value for path, value in values.items() if "." not in path}
    of_document = {
        path.removeprefix("document."): value for path, value in values.items() if path not in own
    }
    return Hit(
        document=Document(
            kind=DocumentKind(hit.kind),
            id=hit.uri if hit.kind == DocumentKind.MEMORY else hit.id,
            owner=Owner(""),
            text=hit.text,
            title=hit.title,
            **of_document | {"tags": frozenset(hit.tags)},
        ),
        score=hit.score,
        parts=hit.score_parts,
        uri=hit.uri,
        truncated=hit.truncated,
        passage=None if hit.passage is None else _passage(hit.passage),
        **own,
    )
