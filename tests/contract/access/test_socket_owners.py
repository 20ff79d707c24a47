"""Every way to ask the kernel whose a TCP connection is: it answers for what is open, or not at
all."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

from agent_memory.features.access.adapters.socket_owners import ProcNet, SockDiag, choose
from agent_memory.features.access.ports import SocketOwners
from agent_memory.kernel.access import Address
from tests.other_users import NOBODY, SOMEBODY, OtherUser

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the socket table is Linux's")

RESET = struct.pack("ii", 1, 0)
FAMILIES = {
    "IPv4": (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1"),
    "IPv6": (socket.AF_INET6, "::1", socket.AF_INET6, "::1"),
    "IPv4, asked by an IPv6 socket": (
        socket.AF_INET, "127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1",
    ),
    "IPv4, answered by an IPv6 socket": (
        socket.AF_INET6, "::ffff:127.0.0.1", socket.AF_INET, "127.0.0.1",
    ),
}  # fmt: skip


@pytest.fixture(params=[SockDiag, ProcNet])
def owners(request: pytest.FixtureRequest) -> Iterator[SocketOwners]:
    created = request.param()
    yield created
    created.close()


def uid_of(owners: SocketOwners, peer: Address, own: Address) -> int | None:
    found = owners.find_owner(peer, own)
    return None if found is None else found.uid


class Connected:
    """A connection within this process, and both its ends as addresses."""

    def __init__(
        self,
        family: int = socket.AF_INET,
        host: str = "127.0.0.1",
        client_family: int = socket.AF_INET,
        target: str = "127.0.0.1",
    ) -> None:
        self._open = ExitStack()
        listener = self._open.enter_context(socket.socket(family))
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, 0))
        listener.listen(1)
        self.client = self._open.enter_context(socket.socket(client_family))
        self.client.connect((target, listener.getsockname()[1]))
        accepted, _ = listener.accept()
        self.server = self._open.enter_context(accepted)
        self.peer = Address.parse(*self.client.getsockname()[:2])
        self.own = Address.parse(*self.client.getpeername()[:2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


@pytest.mark.parametrize("ends", FAMILIES.values(), ids=FAMILIES)
def test_an_open_connection_is_its_users(
    owners: SocketOwners, ends: tuple[int, str, int, str]
) -> None:
    with Connected(*ends) as both:
        assert uid_of(owners, both.peer, both.own) == os.geteuid()
        assert uid_of(owners, both.own, both.peer) == os.geteuid()  # our end is a row, too


def test_it_is_told_from_the_next_on_the_same_port(owners: SocketOwners) -> None:
    with Connected() as both:
        first = owners.find_owner(both.peer, both.own)
        assert first is not None
        assert first.inode == os.fstat(both.client.fileno()).st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
@pytest.mark.parametrize("uid", [NOBODY, SOMEBODY])
def test_another_users_connection_is_theirs(owners: SocketOwners, uid: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, OtherUser(uid) as person:
        own = Address.parse(*listener.getsockname())
        _, source = person.forward(own.port)
        accepted, _ = listener.accept()
        with accepted:
            assert uid_of(owners, Address.parse("127.0.0.1", source), own) == uid
        person.end_forwarding()


class TestNoProof:
    def test_of_a_connection_that_is_not_there(self, owners: SocketOwners) -> None:
        with Connected() as both:
            other = both.own._replace(port=both.own.port ^ 1)
            assert owners.find_owner(both.peer, other) is None
            # The kernel's search falls back to the socket that listens at the first address.
            assert owners.find_owner(both.own, other) is None

    def test_after_it_was_reset(self, owners: SocketOwners) -> None:
        with Connected() as both:
            both.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            both.client.close()
            assert owners.find_owner(both.peer, both.own) is None

    def test_of_one_that_its_program_has_closed(self, owners: SocketOwners) -> None:
        with Connected() as both:
            both.client.close()  # FIN_WAIT: no file, uid 0
            assert owners.find_owner(both.peer, both.own) is None

    def test_of_one_that_waits_for_its_last_packets(self, owners: SocketOwners) -> None:
        with Connected() as both:
            both.client.close()
            both.server.close()
            table = Path("/proc/self/net/tcp").read_text()
            assert f":{both.peer.port:04X} 0100007F:{both.own.port:04X} 06" in table  # TIME_WAIT
            assert owners.find_owner(both.peer, both.own) is None

    def test_of_one_that_nobody_has_accepted(self, owners: SocketOwners) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as client,
        ):
            own, peer = (Address.parse(*each.getsockname()) for each in (listener, client))
            assert uid_of(owners, peer, own) == os.geteuid()
            assert owners.find_owner(own, peer) is None  # established, and no file yet

    def test_from_an_answer_to_an_earlier_question(self) -> None:
        asked = SockDiag()
        with Connected() as both, Connected() as other:
            assert uid_of(asked, both.peer, both.own) == os.geteuid()
            asked._socket.send(asked_for(both))  # noqa: SLF001  # its answer is never read
            other.client.close()
            assert asked.find_owner(other.peer, other.own) is None
        asked.close()


def asked_for(both: Connected) -> bytes:
    """A question about this connection, with a number that is not the next."""
    ends = struct.pack("!HH", both.peer.port, both.own.port)
    hosts = b"".join(each.host.packed.ljust(16, b"\0") for each in (both.peer, both.own))
    body = struct.pack("=BBBxI", socket.AF_INET, 6, 0, 2) + ends + hosts
    body += struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    return struct.pack("=IHHII", 16 + len(body), 20, 1, 99, 0) + body


class TestChoosing:
    def test_the_quick_way_is_chosen_where_it_works(self) -> None:
        chosen = choose(os.geteuid())
        assert isinstance(chosen, SockDiag)
        chosen.close()

    def test_none_where_it_does_not_find_us(self) -> None:
        assert choose(os.geteuid() + 1) is None

    def test_none_where_everyone_looks_like_us(self) -> None:
        """In a user namespace without a map, every user is the overflow uid, and so are we."""
        script = (
            "import os; from agent_memory.features.access.adapters.socket_owners import choose;"
            "print(os.geteuid(), choose(os.geteuid()))"
        )
        ended = subprocess.run(
            ["unshare", "--user", sys.executable, "-c", script],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if "unshare" in ended.stderr:
            pytest.skip("no user namespaces here")
        assert ended.stdout == f"{NOBODY} None\n", ended.stderr
