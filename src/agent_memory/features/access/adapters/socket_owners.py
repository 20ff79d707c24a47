"""Look up which user holds the other end of a TCP connection within this machine.

The kernel's socket table shows it. A row is proof only while its connection is established and
belongs to an open file, which the row shows by an inode: the rows that a closed connection leaves
behind (TIME_WAIT and others) have neither inode nor owner, and show uid 0.

There are two ways to ask. `sock_diag` finds one connection in about 10 µs however many there are.
Kernels without it, and sandboxes that forbid it, may have `/proc/net/tcp`, which is read from its
beginning each time (5 ms on an idle machine, mostly for walking an empty table).
"""

import socket
import struct
import sys
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

from agent_memory.features.access.ports import SocketOwners
from agent_memory.kernel.access import Address, SocketOwner

_ESTABLISHED = 1
_TCP = 6

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ANSWER = struct.Struct("=BB2x")  # family, state
_CONNECTION = struct.Struct("!HH16s16s")  # ports and addresses, its own first
_ANY_INTERFACE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # and any cookie
_OWNER = struct.Struct("=12xII")  # uid, inode
_OWNER_AT = _HEADER.size + _ANSWER.size + _CONNECTION.size + len(_ANY_INTERFACE)
_ANSWER_BYTES = 8192
_MOST_ANSWERS = 16  # unread answers to earlier questions
_REMEMBERED = 1024  # connections

_PROC_NET = Path("/proc/self/net")
_UID_MAP = Path("/proc/self/uid_map")
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")
_EVERY_UID = ["0", "0", str(2**32 - 1)]
_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class SockDiag:
    """Ask the kernel for exactly one connection, over netlink."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        )
        self._socket.setblocking(False)  # the answer is there as soon as the question was sent
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def find_owner(self, peer: Address, own: Address, /) -> SocketOwner | None:
        question = _build_question(peer, own)
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        head = _HEADER.pack(
            _HEADER.size + len(question.body),
            _SOCK_DIAG_BY_FAMILY,
            _NLM_F_REQUEST,
            self._sequence,
            0,
        )
        try:
            self._socket.sendto(head + question.body, (0, 0))
            answer = self._answer()
        except OSError:
            return None
        if answer is None:
            return None
        # For a connection that is gone, the kernel answers with the listening socket.
        _family, state = _ANSWER.unpack_from(answer, _HEADER.size)
        start = _HEADER.size + _ANSWER.size
        connection = answer[start : start + _CONNECTION.size]
        if state != _ESTABLISHED or connection not in question.answers:
            return None
        owner = SocketOwner(*_OWNER.unpack_from(answer, _OWNER_AT))
        return owner if owner.inode else None

    def _answer(self) -> bytes | None:
        for _ in range(_MOST_ANSWERS):
            answer, (sender, _groups) = self._socket.recvfrom(_ANSWER_BYTES)
            if sender != 0 or len(answer) < _HEADER.size:
                continue  # not from the kernel
            _length, kind, _flags, sequence, _port = _HEADER.unpack_from(answer)
            if sequence == self._sequence:
                whole = kind == _SOCK_DIAG_BY_FAMILY and len(answer) >= _OWNER_AT + _OWNER.size
                return answer if whole else None
        return None


class ProcNet:
    """Read the table as text."""

    def __init__(self, folder: Path = _PROC_NET) -> None:
        self._folder = folder

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def find_owner(self, peer: Address, own: Address, /) -> SocketOwner | None:
        tables = {"tcp6": _pack_mapped}
        if peer.host.version == 4:
            tables = {"tcp": _pack, **tables}
        for name, packed in tables.items():
            wanted = [
                f"{_hexadecimal(packed(each))}:{each.port:04X}".encode() for each in (peer, own)
            ]
            with suppress(OSError), (self._folder / name).open("rb") as table:
                for line in table:
                    row = line.split()
                    if row[1:3] == wanted and int(row[3], 16) == _ESTABLISHED and row[9] != b"0":
                        return SocketOwner(int(row[7]), int(row[9]))
        return None


def choose(uid: int) -> SocketOwners | None:
    """Choose the way that works on this machine; None where no owner can be proven.

    Each is tried on a connection of our own, which must show this user.
    """
    if sys.platform != "linux" or _is_ambiguous(uid):
        return None
    for kind in (SockDiag, ProcNet):
        with suppress(OSError):
            owners = kind()
            if _finds_own(owners, uid):
                return owners
            owners.close()
    return None


def _is_ambiguous(uid: int) -> bool:
    """Tell whether other users may be shown as this one: a user namespace shows every user it
    lacks alike."""
    try:
        if _UID_MAP.read_text().split() == _EVERY_UID:
            return False
        return uid == int(_OVERFLOW_UID.read_text())
    except (OSError, ValueError):
        return True


def _finds_own(owners: SocketOwners, uid: int) -> bool:
    for family, host in _LOOPBACKS:
        with suppress(OSError), socket.socket(family) as listener, socket.socket(family) as client:
            listener.bind((host, 0))
            listener.listen(1)
            client.connect(listener.getsockname())
            peer, own = (Address.parse(*each.getsockname()[:2]) for each in (client, listener))
            found = owners.find_owner(peer, own)
            return found is not None and found.uid == uid
    return False


class _Question(NamedTuple):
    body: bytes
    answers: tuple[bytes, bytes]  # the connection, as IPv4 and IPv6 sockets have it


@lru_cache(_REMEMBERED)
def _build_question(peer: Address, own: Address) -> _Question:
    """Build the question about a connection. Only the question is remembered, never an answer."""
    plain, mapped = (
        _CONNECTION.pack(peer.port, own.port, pack(peer), pack(own))
        for pack in (_pack_padded, _pack_mapped)
    )
    family = socket.AF_INET if peer.host.version == 4 else socket.AF_INET6
    request = _REQUEST.pack(family, _TCP, 0, 1 << _ESTABLISHED)
    return _Question(request + plain + _ANY_INTERFACE, (plain, mapped))


def _pack(address: Address) -> bytes:
    return address.host.packed


def _pack_padded(address: Address) -> bytes:
    return address.host.packed.ljust(16, b"\0")


def _pack_mapped(address: Address) -> bytes:
    """Return an IPv4 address as an IPv6 socket has it."""
    host: IPv4Address | IPv6Address = address.host
    return host.packed if host.version == 6 else b"\0" * 10 + b"\xff\xff" + host.packed


def _hexadecimal(packed: bytes) -> str:
    """Format an address as /proc/net does: words of 32 bits in the byte order of this machine."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", packed))
