"""Clients of both kinds, and events for them."""

from collections.abc import Callable, Iterator

import pytest

from agent_memory.client import Event, EventRole, EventType, MemoryClient
from tests.client.client_kinds import CLIENT_KINDS, ClientKind
from tests.daemon_process import Daemon

Maker = Callable[..., Event]


@pytest.fixture(params=list(CLIENT_KINDS.values()), ids=list(CLIENT_KINDS))
def client_kind(request: pytest.FixtureRequest) -> ClientKind:
    found: ClientKind = request.param
    return found


@pytest.fixture
def client(client_kind: ClientKind, shared_daemon: Daemon) -> Iterator[MemoryClient]:
    """Either client, over the daemon's Unix socket."""
    with client_kind.connect(f"unix:{shared_daemon.socket}") as connected:
        yield connected


@pytest.fixture
def event(hour: int) -> Maker:
    """Makes valid events of the test's hour."""

    def make(event_id: str | None = None, *, after_ms: int = 0, **more: object) -> Event:
        fields: dict[str, object] = {
            "event_id": event_id,
            "session_id": "session-001",
            "timestamp": hour + after_ms,
            "event_type": EventType.USER_MESSAGE,
            "role": EventRole.USER,
            "text": "What is Rust?",
        }
        return Event(**{**fields, **more})  # type: ignore[arg-type]

    return make
