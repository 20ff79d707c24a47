"""Access control: bearer keys, of which only a hash is stored, who calls, and what they see.

On a team server, the gate and the admission of gRPC say with `act_as` who calls. What reads and
writes records then asks `get_caller`. Work of the daemon itself, and everything on a daemon of
one's own, has no caller and is not restricted.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Self, TypeVar

from agent_memory.kernel.errors import Forbidden, InvalidInput
from agent_memory.kernel.ids import PROJECT, USER, Domain, Millis

T = TypeVar("T")

MAX_PORT = 65535
MAX_PROJECTS = 1_000  # of one principal
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# No slash and no colon: it is part of a domain, and so of URIs.
_PERSON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


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

    def includes(self, other: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(other)


def is_person(name: str) -> bool:
    return _PERSON.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls. `projects` are the only ones that they see and write; None means every project.

    Without a person it is the owner of this memory, as everyone is who reaches a daemon of their
    own.
    """

    person: str = ""
    role: Role = Role.ADMIN
    projects: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.person and not is_person(self.person):
            raise InvalidInput(
                f"{self.person[:100]!r} is not a valid name of a person: use 1 to 100 letters,"
                " digits, dots, dashes, underscores, @ or +"
            )
        if self.projects is not None:
            if len(self.projects) > MAX_PROJECTS:
                raise InvalidInput(f"at most {MAX_PROJECTS:,} projects can be named")
            for name in self.projects:
                if not _PROJECT_NAME.fullmatch(name):
                    raise InvalidInput(
                        f"{name[:100]!r} is not a valid name of a project: use letters, digits,"
                        " dots, dashes and underscores"
                    )

    @property
    def is_scoped(self) -> bool:
        """Whether they see only some projects."""
        return self.projects is not None

    @property
    def own_domain(self) -> Domain:
        """The domain of memories that only they see."""
        return Domain(f"{USER}:{self.person}") if self.person else USER

    @property
    def description(self) -> str:
        """Who they are and what they may do, such as `ada, writer of shop`."""
        return f"{self.person}, {self.rights}"

    @property
    def rights(self) -> str:
        """What they may do, such as `writer of shop`."""
        of = "" if self.projects is None else f" of {', '.join(sorted(self.projects))}"
        return f"{self.role}{of}"

    def sees_project(self, name: str) -> bool:
        """Return whether they see records of this project; an empty name is none."""
        return self.projects is None or name in self.projects

    def sees_domain(self, domain: str) -> bool:
        """Return whether they see memories of a domain, or facts of a scope."""
        family, _, name = domain.partition(":")
        if family == USER:
            return domain == self.own_domain
        return self.sees_project(name if family == PROJECT else "")


OWNER = Principal()
# Those who send no key, where none is needed: they see no record.
NOBODY = Principal(role=Role.READER, projects=frozenset())

_CALLER: ContextVar[Principal | None] = ContextVar("caller", default=None)


def act_as(caller: Principal) -> None:
    """Say on whose behalf the current task works from now on."""
    _CALLER.set(caller)


def get_caller() -> Principal | None:
    """Return on whose behalf this code runs; None if it is not restricted."""
    return _CALLER.get()


def lift_restrictions() -> AbstractContextManager[None]:
    """Work for everyone inside the block: fill a cache that all callers share, say."""
    return work_for(None)


@contextmanager
def work_for(caller: Principal | None) -> Iterator[None]:
    """See and write inside the block what this caller may."""
    token = _CALLER.set(caller)
    try:
        yield
    finally:
        _CALLER.reset(token)


def take_visible(
    read: Callable[[int], Sequence[T]], is_visible: Callable[[T], bool], limit: int
) -> list[T]:
    """Return the first records that are visible, as if there were no others. `read` returns the
    first ones of all."""
    most = limit
    while True:
        found = read(most)
        seen = [record for record in found if is_visible(record)]
        if len(seen) >= limit or len(found) < most:
            return seen[:limit]
        most *= 4


def check_may_write(what: str, domain: str) -> None:
    """Raise Forbidden unless the caller may write what belongs to this domain or scope."""
    caller = get_caller()
    if caller is None:
        return
    if not caller.role.includes(Role.WRITER):
        raise Forbidden(f"your role is {caller.role}, and to write {what} needs writer")
    if not caller.sees_domain(domain):
        raise Forbidden(
            f"you may not write {what} of {domain or 'no project'}: {describe_scope(caller)}"
        )


def check_may_manage(what: str) -> None:
    """Raise Forbidden unless the caller is an admin who sees all projects."""
    caller = get_caller()
    if caller is not None and (caller.role is not Role.ADMIN or caller.is_scoped):
        raise Forbidden(f"only an admin of your team may {what}")


def describe_scope(caller: Principal) -> str:
    """Say what a caller sees, for a message to them."""
    if caller.projects is None:
        return "what is private to a person is for them alone"
    return f"your key is for {', '.join(sorted(caller.projects)[:20]) or 'no project'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """A key. That of a person is for a team server, and has their role and projects."""

    name: str
    digest: bytes
    created_ms: Millis
    person: str = ""
    role: Role = Role.ADMIN
    projects: frozenset[str] | None = None
    created_by: str = ""  # the person who made it; empty: the operator of the server

    @property
    def principal(self) -> Principal:
        return Principal(person=self.person, role=self.role, projects=self.projects)

    def __post_init__(self) -> None:
        _ = self.principal  # checks the names
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
