"""Access control: bearer keys, of which only a hash is stored, and the addresses of callers."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Self

from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis

MAX_PORT = 65535
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Address(NamedTuple):
    """One end of a TCP connection."""

    host: IPv4Address | IPv6Address
    port: int

    @classmethod
    def parse(cls, host: str, port: int) -> Self:
        """Parse a numeric host and a port; an IPv4-mapped IPv6 host becomes IPv4.

        Raises ValueError if the host is not numeric or the port is out of range.
        """
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if not 0 < port <= MAX_PORT:
            raise ValueError(f"there is no port {port}")
        return cls(address, port)


class SocketOwner(NamedTuple):
    """The owner of an open socket. `inode` is unique among the open sockets."""

    uid: int
    inode: int


class Role(StrEnum):
    """What a caller may do. Each role includes the ones before it."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls. `projects` are the only ones that they see and write; None means every project.

    Without a person it is the owner of this memory, as everyone is who reaches a daemon of their
    own.
    """

    person: str = ""
    role: Role = Role.ADMIN
    projects: frozenset[str] | None = None


OWNER = Principal()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    name: str
    digest: bytes
    created_ms: Millis

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is not a valid key name: use 1 to 64 letters, digits, dots, dashes"
                " or underscores"
            )


def hash_secret(secret: str) -> bytes:
    # The secrets are 256 random bits, so a plain hash cannot be searched.
    return hashlib.sha256(secret.encode()).digest()


def find_key(secret: str, keys: Iterable[AccessKey]) -> AccessKey | None:
    """Return the key with this secret. Every key is compared, so that timing reveals nothing."""
    match, digest = None, hash_secret(secret)
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            match = key
    return match
