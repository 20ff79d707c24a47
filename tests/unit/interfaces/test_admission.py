"""Who may call over TCP, as the guard of memory.* decides it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from agent_memory.features.operations.adapters.key_ring import StoredKeyRing
from agent_memory.features.operations.services.access import Access
from agent_memory.interfaces.grpc.admission import GrpcCaller, SameUserGuard, parse_peer
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
def keys() -> BearerGuard:
    store = CommittedStore(MemoryEngine(), watch=_unexpected)
    access = Access(keys=StoredKeyRing(store), clock=SystemClock(), new_secret=lambda: "am_right")
    access.create("default")
    return BearerGuard(access)


@pytest.fixture
def guard(keys: BearerGuard, table: Table) -> SameUserGuard:
    made = SameUserGuard(keys, table, OWN_UID)
    made.serve_at("127.0.0.1", 50051)
    made.serve_at("::1", 50051)
    return made


def _unexpected(health: StoreHealth) -> None:
    raise AssertionError(health.reason)


def caller(port: int = 7, authorization: str | None = None) -> GrpcCaller:
    return GrpcCaller(authorization=authorization, peer=f"ipv4:127.0.0.1:{port}")


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
    guard.serve_at("127.0.0.1", 50051)
    with pytest.raises(Unauthorized):
        guard(caller())
    assert guard(caller(authorization="Bearer am_right")) is None


def test_a_key_is_checked_and_the_table_is_not(guard: SameUserGuard, table: Table) -> None:
    table.rows[7] = SocketOwner(OWN_UID, 1)
    assert guard(caller(authorization="Bearer am_right")) is None
    for wrong in ("Bearer am_wrong", "Bearer", ""):
        with pytest.raises(Unauthorized) as refused:
            guard(caller(authorization=wrong))
        assert "am_wrong" not in str(refused.value)
    assert table.asked == []


def test_a_connection_is_confirmed_once_and_its_port_again(
    guard: SameUserGuard, table: Table
) -> None:
    table.rows[7] = SocketOwner(OWN_UID, 1)
    confirm = guard(caller())
    assert confirm is not None
    assert guard(caller()) is not None  # not before it was
    confirm()
    assert guard(caller()) is None
    table.rows[7] = SocketOwner(OWN_UID, 2)  # another connection from the same port
    assert guard(caller()) is not None
    table.rows[7] = SocketOwner(OTHER_UID, 1)  # and another's is looked up all the same
    with pytest.raises(Unauthorized):
        guard(caller())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_calls_that_wait_together_share_a_lookup_and_a_later_one_does_not(
    keys: BearerGuard, table: Table, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    admitted: list[bool] = []

    async def hand_over() -> None:
        loop = asyncio.get_running_loop()
        guard = SameUserGuard(keys, table, OWN_UID, loop.call_soon)
        guard.serve_at("127.0.0.1", 50051)
        done = loop.create_future()

        def check() -> None:
            try:
                guard(caller())
                admitted.append(True)
            except Unauthorized:
                admitted.append(False)
            if len(admitted) == 3:
                done.set_result(None)

        def pass_port_on() -> None:
            table.rows[7] = SocketOwner(OTHER_UID, 2)
            loop.call_soon(check)  # a call of the connection that has the port now

        for step in (check, pass_port_on, check):
            loop.call_soon(step)
        await done

    table.rows[7] = SocketOwner(OWN_UID, 1)
    run(hand_over())
    assert admitted == [True, True, False]
    assert len(table.asked) == 2


def test_how_many_are_remembered_is_bounded(guard: SameUserGuard, table: Table) -> None:
    for port in range(1, 3000):
        table.rows[port] = SocketOwner(OWN_UID, port)
        confirm = guard(caller(port))
        assert confirm is not None
        confirm()
    assert guard(caller(2999)) is None
    assert guard(caller(1)) is not None


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ipv4:127.0.0.1:5", ("127.0.0.1", 5)),
        ("ipv6:%5B::1%5D:5", ("::1", 5)),
        ("ipv6:[::1]:65535", ("::1", 65535)),
        ("ipv6:%5B::ffff:127.0.0.1%5D:5", ("127.0.0.1", 5)),
        ("unix:/run/grpc.sock", None),
        ("unix:", None),
        ("ipv4:127.0.0.1", None),
        ("ipv4:127.0.0.1:", None),
        ("ipv4:127.0.0.1:0", None),
        ("ipv4:127.0.0.1:65536", None),
        ("ipv4:127.0.0.1:\N{ARABIC-INDIC DIGIT FIVE}", None),
        ("ipv4:localhost:5", None),
        ("dns:127.0.0.1:5", None),
        ("", None),
    ],
)
def test_peers(name: str, address: tuple[str, int] | None) -> None:
    assert parse_peer(name) == (None if address is None else Address.parse(*address))
