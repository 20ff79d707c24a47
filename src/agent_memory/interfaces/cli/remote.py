"""The services of another daemon over gRPC, for commands with `--endpoint`."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TypeVar

from agent_memory.client import (
    ClientError,
    ConnectionFailed,
    InvalidEndpoint,
    RpcError,
    SerializationError,
    calls,
)
from agent_memory.client.connection import Connection
from agent_memory.interfaces.wire import rpc
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

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
            yield RemoteDaemon(connection)


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
