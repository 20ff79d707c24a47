"""Who may call over TCP, as the guard of memory.* decides it."""

import asyncio
import socket
import struct
from pathlib import Path

import pytest
import uvloop

from agent_memory.features.access.adapters.key_ring import StoredKeyRing
from agent_memory.features.access.adapters.revoked_keys import RevokedKeyFile
from agent_memory.features.access.services.access import Access
from agent_memory.interfaces.grpc.admission import CallOrigin, GrpcCaller, SameUserGuard
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.kernel.access import Address, SocketOwner
from agent_memory.kernel.errors import Unauthorized
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.store.committer import CommittedStore
from tests.memory_engine import MemoryEngine

OWN_UID, OTHER_UID = 1000, 1001
SERVER = Address.parse("127.0.0.1", 50051)


class Table:
    """A socket table that a test writes: by the port of the peer."""

    def __init__(self) -> None:
        self.rows: dict[int, SocketOwner] = {}
        self.asked: list[tuple[Address, Address]] = []

    def find_owner(self, peer: Address, own: Address, /) -> SocketOwner | None:
        self.asked.append((peer, own))
        return self.rows.get(peer.port)

    def close(self) -> None: ...


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def keys(tmp_path: Path) -> BearerGuard:
    store = CommittedStore(MemoryEngine(), watch=_unexpected)
    access = Access(
        keys=StoredKeyRing(store, RevokedKeyFile(tmp_path / "revoked-keys")),
        clock=SystemClock(),
        new_secret=lambda: "am_right",
    )
    access.create("default")
    return BearerGuard(access)


@pytest.fixture
def guard(keys: BearerGuard, table: Table) -> SameUserGuard:
    return SameUserGuard(keys, table, OWN_UID)


def _unexpected(health: StoreHealth) -> None:
    raise AssertionError(health.reason)


def tcp(port: int, *, established: bool = True) -> CallOrigin:
    peer = Address.parse("127.0.0.1", port)
    return CallOrigin(peer=peer, own=SERVER, is_established=lambda: established)


def caller(port: int = 7, authorization: str | None = None) -> GrpcCaller:
    return GrpcCaller(authorization=authorization, origin=tcp(port))


def test_a_row_of_the_same_user_is_enough(guard: SameUserGuard, table: Table) -> None:
    table.rows[7] = SocketOwner(OWN_UID, 1)
    guard(caller())
    assert table.asked == [(Address.parse("127.0.0.1", 7), SERVER)]


@pytest.mark.parametrize("row", [None, SocketOwner(OTHER_UID, 1), SocketOwner(0, 1)])
def test_no_row_or_anothers_is_not(
    guard: SameUserGuard, table: Table, row: SocketOwner | None
) -> None:
    if row is not None:
        table.rows[7] = row
    with pytest.raises(Unauthorized, match="a bearer key is needed"):
        guard(caller())


def test_without_a_table_there_is_no_proof(keys: BearerGuard) -> None:
    guard = SameUserGuard(keys, None, OWN_UID)
    with pytest.raises(Unauthorized):
        guard(caller())
    guard(caller(authorization="Bearer am_right"))


def test_a_key_is_checked_and_the_table_is_not(guard: SameUserGuard, table: Table) -> None:
    table.rows[7] = SocketOwner(OWN_UID, 1)
    guard(caller(authorization="Bearer am_right"))
    for wrong in ("Bearer am_wrong", "Bearer", ""):
        with pytest.raises(Unauthorized) as refused:
            guard(caller(authorization=wrong))
        assert "am_wrong" not in str(refused.value)
    assert table.asked == []


def test_a_connection_is_looked_up_once(guard: SameUserGuard, table: Table) -> None:
    table.rows[7] = SocketOwner(OWN_UID, 1)
    origin = tcp(7)
    for _ in range(3):
        guard(GrpcCaller(authorization=None, origin=origin))
    assert len(table.asked) == 1
    table.rows[7] = SocketOwner(OTHER_UID, 2)  # another connection from the same port
    with pytest.raises(Unauthorized):
        guard(caller())


def test_a_row_does_not_count_if_our_end_is_gone(guard: SameUserGuard, table: Table) -> None:
    """It may be another connection that has the port now."""
    table.rows[7] = SocketOwner(OWN_UID, 1)
    with pytest.raises(Unauthorized):
        guard(GrpcCaller(authorization=None, origin=tcp(7, established=False)))
    assert len(table.asked) == 1


def test_ends_that_are_unknown_prove_nothing(guard: SameUserGuard, table: Table) -> None:
    for origin in (CallOrigin(), CallOrigin(peer=SERVER), CallOrigin(own=SERVER)):
        with pytest.raises(Unauthorized):
            guard(GrpcCaller(authorization=None, origin=origin))
    assert table.asked == []


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_connection_shows_both_ends_and_whether_it_is_open(
    family: socket.AddressFamily,
) -> None:
    host = "::1" if family == socket.AF_INET6 else "127.0.0.1"

    async def accept() -> tuple[CallOrigin, tuple[str, int], bool, bool]:
        loop = asyncio.get_running_loop()
        created: asyncio.Future[CallOrigin] = loop.create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                created.set_result(CallOrigin.of_transport(transport))

        server = await loop.create_server(Accepting, host, 0)
        with socket.create_connection(server.sockets[0].getsockname()[:2]) as client:
            origin = await created
            client_end = client.getsockname()[:2]
            before = origin.is_established()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        after = origin.is_established()  # the loop has not heard of the reset yet
        server.close()
        return origin, client_end, before, after

    origin, client_end, before, after = uvloop.run(accept())
    assert origin.peer == Address.parse(*client_end)
    assert origin.own is not None
    assert str(origin.own.host) == host
    assert (before, after) == (True, False)
    assert not origin.uses_socket


def test_the_unix_socket_is_known(tmp_path: Path) -> None:
    async def accept() -> CallOrigin:
        loop = asyncio.get_running_loop()
        created: asyncio.Future[CallOrigin] = loop.create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                created.set_result(CallOrigin.of_transport(transport))

        path = str(tmp_path / "s")
        server = await loop.create_unix_server(Accepting, path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            origin = await created
        server.close()
        return origin

    assert uvloop.run(accept()).uses_socket
