"""Commands with `--endpoint`: the same answers, from a daemon over gRPC."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agent_memory.client import (
    ClientError,
    ConnectionFailed,
    InvalidEndpoint,
    MemoryClient,
    RpcError,
    SerializationError,
)
from agent_memory.domain.errors import (
    AgentMemoryError,
    InvalidInput,
    RemoteUnavailable,
    Unauthorized,
)
from agent_memory.domain.events import (
    Event,
    EventId,
    EventRole,
    EventType,
    Millis,
    Page,
    Position,
    SessionId,
)
from agent_memory.interfaces import wire

_ERRORS: Mapping[str, type[AgentMemoryError]] = {
    "INVALID_ARGUMENT": InvalidInput,
    "UNAUTHENTICATED": Unauthorized,
    "UNAVAILABLE": RemoteUnavailable,
    "DEADLINE_EXCEEDED": RemoteUnavailable,
}


class RemoteEvents:
    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def events(
        self, start: int, end: int, *, limit: int = 0, after: Position | None = None
    ) -> Page:
        token = None if after is None else wire.token_out(after)
        found = self._client.get_events(start, end, limit, token)
        return Page(
            events=tuple(
                Event(
                    event_id=EventId(event.event_id),
                    session_id=SessionId(event.session_id),
                    at_ms=Millis(event.timestamp_ms),
                    type=EventType(event.event_type),
                    role=EventRole(event.role),
                    text=event.text,
                    metadata=event.metadata,
                )
                for event in found.events
            ),
            next=wire.token_in(found.continuation_token) if found.continuation_token else None,
        )


@contextmanager
def connected(endpoint: str, key: str | None) -> Iterator[RemoteEvents]:
    try:
        with MemoryClient.connect(endpoint, key=key) as client:
            yield RemoteEvents(client)
    except InvalidEndpoint as exc:
        raise InvalidInput(str(exc)) from exc
    except ConnectionFailed as exc:
        raise RemoteUnavailable(str(exc)) from exc
    except SerializationError as exc:
        raise InvalidInput(str(exc)) from exc
    except RpcError as exc:
        raise _ERRORS.get(exc.code, AgentMemoryError)(exc.details) from exc
    except ClientError as exc:
        raise AgentMemoryError(str(exc)) from exc
