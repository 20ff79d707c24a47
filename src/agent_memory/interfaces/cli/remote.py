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
from agent_memory.features.log.model.tokens import parse_offset
from agent_memory.interfaces.wire import rpc
from agent_memory.interfaces.wire.search import HIT_FIELDS
from agent_memory.kernel.errors import (
    AgentMemoryError,
    InvalidInput,
    NotFound,
    RemoteUnavailable,
    Unauthorized,
)
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
                parse=lambda content: rpc.unpack_answer(operation, request, content),
            )
        )
        return answer

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
